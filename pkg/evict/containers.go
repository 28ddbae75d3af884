package evict

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
)

// containers stops containers and reads whether they have ended. All methods but startedAgain may
// be called from any goroutine.
type containers struct {
	*Options
	condemned  condemned
	background *sync.WaitGroup
	wake       func()
	warn       func(error)
}

// stop stops the containers of an eviction. Without a grace period the kernel kills them at once,
// and the runtime notices that they have ended. atLimit is as for Options.Kill, for containers
// whose limit was noted. They are killed side by side: one may take condemnPatience. stop returns
// after killPatience at the latest, so that the memory is read meanwhile.
func (c *containers) stop(ctx context.Context, e Eviction, atLimit bool) {
	var kills sync.WaitGroup
	for _, stopped := range e.Containers {
		if e.Grace > 0 {
			c.askRuntime(ctx, e, stopped)
			continue
		}
		kills.Add(1)
		c.background.Go(func() {
			defer kills.Done()
			if err := c.kill(stopped, atLimit && stopped.MemoryMax > 0); err != nil {
				if !errors.Is(err, errNoKill) {
					c.Events.Failed(e, StepStop, err)
				}
				c.askRuntime(ctx, e, stopped)
			}
		})
	}
	//guard: the memory is read while the kernel takes its time to kill
	within(killPatience, kills.Wait)
}

// killPatience is the time for which stop waits for its kills: the reaper's, which begins on the
// CPU of the kill.
const killPatience = reapPatience

// errNoKill means that the kernel has no cgroup.kill (before Linux 5.14).
var errNoKill = errors.New("no cgroup.kill")

// kill kills the processes of a container. It succeeds if the container is already gone.
func (c *containers) kill(stopped Container, atLimit bool) error {
	//guard: a container without a cgroup is not killed by that of the root
	if stopped.Cgroup == "" {
		return fmt.Errorf("container %s has no cgroup", stopped.ID) // the root's would be the whole node
	}
	if atLimit {
		c.condemned.add(c.Cgroups, stopped.Cgroup)
	}
	err := c.Kill(stopped.Cgroup, atLimit)
	if atLimit {
		c.condemned.total(c.Cgroups) // the runtime may remove the cgroup before the next reading
	}
	if err == nil {
		return nil
	}
	switch {
	//guard: a container that ends while it is killed is no failure
	case c.ended(stopped): // maybe since the open
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return errNoKill
	}
	return err
}

// killAll kills the processes of containers of an evicted pod, without a grace period.
func (c *containers) killAll(e Eviction, list []Container) {
	for _, container := range list {
		if err := c.kill(container, false); err != nil && !errors.Is(err, errNoKill) {
			c.Events.Failed(e, StepStop, err)
		}
	}
}

// askRuntime requests that the runtime stops a container, in the background. A runtime that is
// restarted may miss the request. So it is repeated, for the grace period or endTimeout. A runtime
// that has failed after the signal may send a second one then.
func (c *containers) askRuntime(ctx context.Context, e Eviction, stopped Container) {
	c.background.Go(func() {
		defer c.wake()
		begin, pause, failed := time.Now(), endInterval, false
		for {
			err := c.Runtime.Stop(ctx, stopped.ID, max(0, e.Grace-time.Since(begin)))
			if populated, _ := c.Cgroups.Populated(stopped.Cgroup); err == nil || ctx.Err() != nil || !populated {
				return
			}
			if !failed {
				c.Events.Failed(e, StepStop, err)
			}
			failed = true
			//guard: a request to stop that the runtime misses is repeated
			//guard: a runtime that does not answer is not asked without end
			if time.Since(begin)+pause >= max(e.Grace, endTimeout) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, endTimeout)
		}
	})
}

// running reports whether a process of the containers of an eviction runs. A container that cannot
// be read counts as running.
func (c *containers) running(e Eviction) (bool, error) {
	for _, stopped := range e.Containers {
		if populated, err := c.Cgroups.Populated(stopped.Cgroup); err != nil || populated {
			return true, err
		}
	}
	return false, nil
}

// ended reports whether no process of a container runs. A container that cannot be read has not
// ended.
func (c *containers) ended(container Container) bool {
	populated, err := c.Cgroups.Populated(container.Cgroup)
	return err == nil && !populated
}

// rest returns the running containers of an evicted pod, in and outside of the partition.
func (c *containers) rest(e Eviction) []Container {
	return slices.DeleteFunc(c.Rest(e.UID), c.ended)
}

// outside returns the running containers of an evicted pod that are not below its slice in the
// partition.
func (c *containers) outside(e Eviction) []Container {
	return slices.DeleteFunc(c.rest(e), func(rest Container) bool {
		return strings.HasPrefix(rest.Cgroup, e.Cgroup+"/")
	})
}

// startedAgain returns the containers that the kubelet has started in place of those of an
// eviction.
func (c *containers) startedAgain(e Eviction) (list []Container) {
	scopes, err := c.Scopes(e.Cgroup)
	if err != nil {
		c.warn(err)
	}
	for id, cgroup := range scopes {
		stopped := slices.ContainsFunc(e.Containers, func(stopped Container) bool { return stopped.Cgroup == cgroup })
		if again := (Container{ID: id, Cgroup: cgroup}); !stopped && !c.ended(again) {
			list = append(list, again)
		}
	}
	return list
}
