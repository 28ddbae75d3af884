package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
)

const (
	monitorProgram = "/usr/bin/partition-monitor"
	monitorAddress = "127.0.0.1:9949"
	monitorLog     = "/var/log/nodebench-monitor.log"
	// settle is the pause after the monitor has started or stopped.
	settle = 300 * time.Millisecond
)

// monitorCgroup is the monitor's cgroup, from the root of the file system. Nothing else is in it.
const monitorCgroup = "nodebench-monitor"

// monitor is partition-monitor as a process of ours, with the service stopped.
type monitor struct {
	log   *os.File
	cmd   *exec.Cmd
	ended chan error
}

// start starts the monitor and returns when the runtime has connected with it.
func (m *monitor) start(ctx context.Context) error {
	m.cmd = exec.CommandContext(ctx, monitorProgram, "run", "--listen", monitorAddress)
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	dir := filepath.Join(cgroups.Mount, monitorCgroup)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer group.Close()
	m.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	m.ended = make(chan error, 1)
	go func() { m.ended <- m.cmd.Wait() }()
	// Not more often, because each poll takes time from the monitor.
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := time.After(3 * late)
	const connected = "nodepartition_source_connected{source=\"nri\"} 1\n"
	for !strings.Contains(get("/metrics"), connected) || !strings.HasPrefix(get("/readyz"), "ok") {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			said, _ := os.ReadFile(monitorLog) // its log is only an extra
			return fmt.Errorf(
				"the monitor is not ready after %s; it is %q and said:\n%s",
				3*late, get("/readyz"), said[max(0, len(said)-2000):],
			)
		}
	}
	return pause(ctx, settle)
}

func (m *monitor) stop(ctx context.Context) error {
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-m.ended:
		return errors.Join(err, pause(ctx, settle))
	case <-time.After(late):
		return errors.New("the monitor does not end")
	}
}

// get returns the monitor's answer, whatever its status is. It returns "" if there is none.
func get(path string) string {
	response, err := http.Get("http://" + monitorAddress + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// monitoredPod starts the monitor, and a pod with a slice in the partition.
func monitoredPod(ctx context.Context, s settings) (*pod, *monitor, error) {
	log, err := os.OpenFile(monitorLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(ctx, func() { log.Close() })
	c, err := connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	m := &monitor{log: log}
	if err := m.start(ctx); err != nil {
		return nil, nil, err
	}
	// The monitor runs when the sandbox begins, and creates the pod's slice.
	p, err := startPod(ctx, s.runtime, "00000000-0000-4000-8000-00000000c4ea", c)
	if err != nil {
		return nil, nil, err
	}
	return p, m, eventually(ctx, "the pod has its slice in the partition", func() bool {
		limits, err := tree.Limits(partition.CgroupPath(p.slice(partition.System)))
		return err == nil && limits.MemoryMax == 200<<20
	})
}

// warmUp is the number of the round before the first.
const warmUp = -1

// alternate calls half for the warm-up and for each round twice, with the monitor and without it.
// The half with the monitor is first in one round and second in the next, so that the monitor
// starts or stops once in each round. Each half begins after a container. At the end alternate ends
// the pod and the monitor.
func (p *pod) alternate(ctx context.Context, m *monitor, rounds int, half func(round int, with bool) error) error {
	running := true
	for i := range rounds + 1 {
		for _, with := range []bool{i%2 == 0, i%2 != 0} {
			if with != running {
				running = with
				if err := m.toggle(ctx, with); err != nil {
					return err
				}
				if err := p.once(ctx, with); err != nil {
					return err
				}
			}
			if err := half(i+warmUp, with); err != nil {
				return err
			}
		}
	}
	if !running {
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	return errors.Join(p.end(ctx), m.stop(ctx))
}

// setHalf sets the times of one half of a round.
func setHalf(r *figure.Round, with bool, times []time.Duration) {
	if with {
		r.A = times
	} else {
		r.B = times
	}
}

func (m *monitor) toggle(ctx context.Context, on bool) error {
	if on {
		return m.start(ctx)
	}
	return m.stop(ctx)
}

// once starts a container, checks its place and removes it.
func (p *pod) once(ctx context.Context, with bool) error {
	id, err := p.start(ctx)
	if err != nil {
		return err
	}
	want := partition.Default
	if with {
		want = partition.System
	}
	got, err := p.where(id)
	if err == nil && got != want {
		err = fmt.Errorf("container %s is in the partition %s, want %s", id, got, want)
	}
	return errors.Join(err, p.remove(ctx, id))
}
