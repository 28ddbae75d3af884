package evict

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
)

// containers ends containers, and reads whether they have ended. Its methods but startedAgain may
// be called from any goroutine.
type containers struct {
	*Options
	background *sync.WaitGroup
	wake       func()
	warn       func(error)
}

// stop stops the containers of an eviction: at once by the kernel, where there is no grace period.
// The runtime sees them end as it sees them killed by anybody else; asked to, it would take a
// hundred times as long (docs/architecture.md).
func (c *containers) stop(ctx context.Context, e Eviction) {
	for _, stopped := range e.Containers {
		if e.Grace > 0 {
			c.ask(ctx, e, stopped)
			continue
		}
		if err := c.kill(stopped); err != nil {
			if !errors.Is(err, errNoKill) {
				c.Events.Failed(e, StepStop, err)
			}
			c.ask(ctx, e, stopped)
		}
	}
}

// errNoKill says that the kernel cannot kill a cgroup: before Linux 5.14.
var errNoKill = errors.New("no cgroup.kill")

// kill kills what is in a container. That it is gone already is success.
func (c *containers) kill(stopped Stopped) error {
	if stopped.Cgroup == "" {
		return fmt.Errorf("container %s has no cgroup", stopped.ID) // the root's would be the whole node
	}
	err := c.Kill(stopped.Cgroup)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if populated, _ := c.Cgroups.Populated(stopped.Cgroup); populated {
		return errNoKill
	}
	return nil
}

// killAll kills what is in the cgroups, which are containers of an eviction that have no grace
// period.
func (c *containers) killAll(e Eviction, cgroups []string) {
	for _, cgroup := range cgroups {
		if err := c.kill(Stopped{Cgroup: cgroup}); err != nil && !errors.Is(err, errNoKill) {
			c.Events.Failed(e, StepStop, err)
		}
	}
}

// ask has the runtime stop a container, and does not wait for it.
func (c *containers) ask(ctx context.Context, e Eviction, stopped Stopped) {
	c.background.Go(func() {
		if err := c.Runtime.Stop(ctx, stopped.ID, e.Grace); err != nil && ctx.Err() == nil {
			if populated, _ := c.Cgroups.Populated(stopped.Cgroup); populated {
				c.Events.Failed(e, StepStop, err)
			}
		}
		c.wake()
	})
}

// running reports whether a process of the containers of an eviction runs. One that cannot be read
// may have some.
func (c *containers) running(e Eviction) (bool, error) {
	for _, stopped := range e.Containers {
		if populated, err := c.Cgroups.Populated(stopped.Cgroup); err != nil || populated {
			return true, err
		}
	}
	return false, nil
}

// empty reports whether no process runs in a cgroup. One that cannot be read may have some.
func (c *containers) empty(cgroup string) bool {
	populated, err := c.Cgroups.Populated(cgroup)
	return err == nil && !populated
}

// rest returns the cgroups of containers of an evicted pod that run, in and outside of the
// partition.
func (c *containers) rest(e Eviction) []string {
	return slices.DeleteFunc(c.Rest(e.UID), c.empty)
}

// startedAgain returns the cgroups of containers that the kubelet has started in the place of those
// of an eviction.
func (c *containers) startedAgain(e Eviction) []string {
	scopes, err := c.Scopes(e.Cgroup)
	if err != nil {
		c.warn(err)
	}
	return slices.DeleteFunc(slices.Collect(maps.Values(scopes)), func(cgroup string) bool {
		return slices.ContainsFunc(e.Containers, func(stopped Stopped) bool { return stopped.Cgroup == cgroup }) || c.empty(cgroup)
	})
}
