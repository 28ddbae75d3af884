package livemove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
)

// Systemd reads, starts and freezes scopes. *systemd.Client implements it.
type Systemd interface {
	ScopeProperties(ctx context.Context, name string) (systemd.Properties, error)
	StartScope(ctx context.Context, name string, properties []systemd.Property, pids []uint32) error
	ResetFailed(ctx context.Context, name string) error
	Freeze(ctx context.Context, name string) error
	Thaw(ctx context.Context, name string) error
}

// Reasons why a container is not moved. None of its processes has been moved then.
var (
	// ErrOwnCgroups means that a container has cgroups below its scope, which systemd cannot move.
	ErrOwnCgroups = errors.New("the container has cgroups of its own")
	// ErrGone means that the scope is gone or has no processes.
	ErrGone = errors.New("the container is gone")
	// ErrPaused means that the scope is frozen, and not by us: the move would resume it.
	ErrPaused = errors.New("the container is paused")
)

// errIncomplete means that some of a container's processes are in the old scope and some in the new
// one. The next Move of the same request finishes it.
var errIncomplete = errors.New("moved in part")

// Mover moves containers, each from one goroutine at a time.
type Mover struct {
	Systemd Systemd
	// Cgroups is the mount point of cgroup v2.
	Cgroups cgroups.FS
	// StateDir is a directory of ours on a tmpfs, for the records that Recover needs.
	StateDir string

	// holds opens the processes of a cgroup in a test; nil means hold.
	holds func(dir, cgroup string) (held, error)
}

func (m Mover) hold(cgroup string) (held, error) {
	if m.holds != nil {
		return m.holds(m.dir(cgroup), cgroup)
	}
	return hold(m.dir(cgroup), cgroup)
}

// Request is a container to move, and its destination.
type Request struct {
	// Scope is the unit that the container is in. Cgroup is its path below the mount.
	Scope, Cgroup string
	// TargetSlice is the slice that it belongs to. If the slice does not exist, systemd creates it
	// implicitly, without limits.
	TargetSlice string
	// NewName is the unit that takes over, one of the names of package partition that is free.
	NewName string
	// Description is for people.
	Description string
}

// softRounds bounds how often processes are moved without freezing. Most containers that fork need
// two or three rounds. A chain of processes, each of which forks the next one and exits, may never
// be caught.
const softRounds = 8

// hardRounds bounds how often the processes of a frozen scope are moved. They do not fork, but one
// may be killed, and the runtime may start one with exec.
const hardRounds = 5

// Move moves a container. It may be called again for one that it has moved in part.
func (m Mover) Move(ctx context.Context, r Request) error {
	if err := m.move(ctx, r); err != nil {
		return fmt.Errorf("moving %s to %s: %w", r.Scope, r.TargetSlice, err)
	}
	return nil
}

func (m Mover) move(ctx context.Context, r Request) error {
	if !strings.HasSuffix(r.Scope, ".scope") || r.Scope == r.NewName {
		return fmt.Errorf("%q to %q: not names of two scopes", r.Scope, r.NewName)
	}
	t := &transfer{Mover: m, Request: r, newCgroup: filepath.Join(partition.CgroupPath(r.TargetSlice), r.NewName)}
	// systemd and the bus take some milliseconds to answer, so prepare runs beside them.
	var nodeErr error
	var reading sync.WaitGroup
	reading.Go(func() { nodeErr = t.prepare() })
	old, err := m.Systemd.ScopeProperties(ctx, r.Scope)
	reading.Wait()
	defer t.anchor.end()
	if errors.Is(err, systemd.ErrNoUnit) {
		// systemd removes the cgroup of a scope that has ended before it forgets the unit.
		//guard: a container whose unit systemd does not know has not ended
		return cmp.Or(m.movable(r.Cgroup), err)
	}
	if err != nil {
		return err
	}
	var cgroup string
	if old.Get("ControlGroup", &cgroup); cgroup != "/"+r.Cgroup {
		return fmt.Errorf("systemd has the scope in %s and not in /%s", cgroup, r.Cgroup)
	}
	if nodeErr != nil {
		if errors.Is(nodeErr, ErrOwnCgroups) {
			// They may be the result of a move that was killed.
			nodeErr = t.rollBack(nodeErr)
		}
		return nodeErr
	}
	t.properties = Properties(old, r.TargetSlice, r.Description)
	return t.run(ctx)
}

// movable returns the reason why a container cannot be moved, nil if it can.
func (m Mover) movable(cgroup string) error {
	nested, err := m.Cgroups.HasChildren(cgroup)
	switch {
	case absent(err):
		return ErrGone
	case err != nil:
		return err
	case nested:
		return ErrOwnCgroups
	}
	frozen, err := m.frozen(cgroup)
	if err == nil && frozen {
		return ErrPaused
	}
	return err
}

func (m Mover) dir(cgroup string) string { return filepath.Join(string(m.Cgroups), cgroup) }
