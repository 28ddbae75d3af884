package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/pkg/podmove/livemove"
	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
)

// processes counts the processes of the container that is moved.
const processes = 8

// mover moves a container of the runtime between the slices of its pod, by two methods.
type mover struct {
	systemd    *systemd.Client
	live       livemove.Mover
	properties systemd.Properties
	// request moves it to the other slice.
	request livemove.Request
	calls   uint64 // of the last live move
}

// move compares a live move with its unavoidable part: StartTransientUnit with the same properties
// and the same processes. Both move the same container, in turn, each as often in the one direction
// as in the other.
func move(ctx context.Context, s settings) ([]figure.Figure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	p, err := startPod(ctx, s.runtime, "00000000-0000-4000-8000-000000000e0e", c)
	if err != nil {
		return nil, err
	}
	if err := c.EnsureSlice(ctx, p.slice(partition.System), "Pod of a benchmark", limits); err != nil {
		return nil, err
	}
	id, _, err := p.start(ctx, "sh", "-c", fmt.Sprintf("for i in $(seq %d); do sleep 1000000 & done; wait", processes-1))
	if err != nil {
		return nil, err
	}
	state, err := os.MkdirTemp("/run", "nodebench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(state)
	scope := scopeName(id)
	m := &mover{
		systemd: c, live: livemove.Mover{Systemd: c, Cgroups: tree, StateDir: state},
		request: livemove.Request{
			Scope:       scope,
			Cgroup:      partition.CgroupPath(p.slice(partition.Default)) + "/" + scope,
			Description: "Container of a benchmark",
			TargetSlice: p.slice(partition.System),
			NewName:     partition.LiveScope(scope),
		},
	}
	if err := eventually(ctx, "all processes run", func() bool {
		pids, err := m.pids()
		return err == nil && len(pids) == processes
	}); err != nil {
		return nil, err
	}
	if m.properties, err = c.ScopeProperties(ctx, scope); err != nil {
		return nil, err
	}
	var rounds []figure.Round
	var times [2][]time.Duration
	calls := map[uint64]int{}
	// The first round is a warm-up. In one round the one moves the container in and the other moves it
	// out. In the next round but one it is the reverse.
	for i := range s.rounds + 1 {
		var r figure.Round
		ways := []func(context.Context) (time.Duration, error){m.bare, m.move}
		var took [2]time.Duration
		for turn := range ways {
			which := (turn + i) % 2
			var err error
			if took[which], err = ways[which](ctx); err != nil {
				return nil, err
			}
			if err := m.turn(ctx); err != nil {
				return nil, err
			}
		}
		if i == 0 {
			continue
		}
		r.A, r.B = []time.Duration{took[1]}, []time.Duration{took[0]}
		rounds = append(rounds, r)
		times[0], times[1] = append(times[0], took[0]), append(times[1], took[1])
		calls[m.calls]++
	}
	err = errors.Join(
		p.remove(ctx, id),
		c.StopScope(ctx, scope),
		c.StopScope(ctx, partition.LiveScope(scope)),
		p.end(ctx),
	)
	if err != nil {
		return nil, err
	}
	ratio := figure.Ratio("a live move, to a bare StartTransientUnit", new(1.5), rounds)
	ratio.Note = fmt.Sprintf(
		"%d processes, %d properties, %d pairs",
		processes, len(livemove.Properties(m.properties, "", "")), len(rounds),
	)
	most := uint64(0)
	for n := range calls {
		most = max(most, n)
	}
	return []figure.Figure{
		ratio, figure.Millis("  live move", times[1]), figure.Millis("  StartTransientUnit", times[0]),
		{Name: "  D-Bus calls of a move, at most", Value: float64(most), Unit: "calls"},
	}, nil
}

// move times a live move.
func (m *mover) move(ctx context.Context) (time.Duration, error) {
	before := m.systemd.Calls()
	begin := time.Now()
	moved, err := m.live.Move(ctx, m.request)
	took := time.Since(begin)
	m.calls = m.systemd.Calls() - before
	if err == nil && moved.Pids != processes {
		err = fmt.Errorf("moved %d processes, want %d", moved.Pids, processes)
	}
	return took, err
}

// bare times the unavoidable part. Reading its input is not counted.
func (m *mover) bare(ctx context.Context) (time.Duration, error) {
	pids, err := m.pids()
	if err != nil {
		return 0, err
	}
	properties := livemove.Properties(m.properties, m.request.TargetSlice, m.request.Description)
	begin := time.Now()
	err = m.systemd.StartScope(ctx, m.request.NewName, properties, pids)
	return time.Since(begin), err
}

// turn reverses the next move, once systemd has unloaded the old scope.
func (m *mover) turn(ctx context.Context) error {
	r := m.request
	err := eventually(ctx, r.Scope+" is gone", func() bool {
		_, err := m.systemd.ScopeProperties(ctx, r.Scope)
		populated, popErr := tree.Populated(r.Cgroup)
		_, there := os.Lstat(filepath.Join(cgroups.Mount, r.Cgroup))
		return errors.Is(err, systemd.ErrNoUnit) && popErr == nil && !populated && errors.Is(there, os.ErrNotExist)
	})
	m.request.Scope, m.request.NewName = r.NewName, r.Scope
	m.request.TargetSlice = filepath.Base(filepath.Dir(r.Cgroup))
	m.request.Cgroup = partition.CgroupPath(r.TargetSlice) + "/" + r.NewName
	return err
}

func (m *mover) pids() ([]uint32, error) {
	data, err := os.ReadFile(filepath.Join(cgroups.Mount, m.request.Cgroup, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []uint32
	for _, number := range strings.Fields(string(data)) {
		pid, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, err
		}
		pids = append(pids, uint32(pid))
	}
	return pids, nil
}
