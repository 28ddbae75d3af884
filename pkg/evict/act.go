package evict

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// begin takes the steps of an eviction that cannot wait.
func (m *Manager) begin(ctx context.Context, s Snapshot, d Decision) {
	e := newEviction(s, d)
	if s.Config.DryRun {
		if s.Now.Before(m.dryRun[e.UID]) {
			return
		}
		m.dryRun[e.UID] = s.Now.Add(retryInterval)
		m.Journal.Evicting(e)
		m.Observer.Evicted(e)
		m.keep(e)
		m.save()
		return
	}
	e.stopping = time.Now()
	e.freed, e.left = e.stopping, e.UsedBytes
	m.state.Open = append(m.state.Open, e)
	if e.Way == Evict && !d.Victim.Terminating { // who deletes a pod wants its next one
		m.state.Cooldown[e.Owner] = s.Now.Add(s.Config.Cooldown)
	}
	m.save()
	m.stop(ctx, e)
	m.Observer.Signalled(time.Since(s.Now))
	m.Journal.Evicting(e)
}

// choose decides. A pod of which nothing is left to stop may still hold memory: its containers may have ended since the list of pods was made, and
// what did not end a moment ago will not end now.
func (m *Manager) choose(s Snapshot) Decision {
	for {
		d := Decide(s)
		if d.Victim == nil {
			return d
		}
		if d.Victim.Empty {
			// Of one that has ended and that only the kubelet has told of, there is no cgroup to look at.
			d.Victim.Containers = slices.DeleteFunc(slices.Clone(d.Victim.Containers), func(c Container) bool { return c.Cgroup == "" })
			return d
		}
		if d.Victim.Containers = m.containers(*d.Victim); len(d.Victim.Containers) > 0 {
			return d
		}
		for i := range s.Pods {
			if s.Pods[i].UID == d.Victim.UID && s.Pods[i].Cgroup == d.Victim.Cgroup {
				s.Pods[i].Empty = true
			}
		}
	}
}

// containers are those of a pod that are left to stop, with those that were started since the list of pods was made.
func (m *Manager) containers(p Pod) []Container {
	known := map[string]Container{}
	for _, c := range p.Containers {
		known[c.ID] = c
	}
	list := slices.Clone(p.Containers)
	if scopes, err := m.Scopes(p.Cgroup); err != nil {
		m.warn(err)
	} else {
		list = list[:0]
		for _, id := range slices.Sorted(maps.Keys(scopes)) {
			c := known[id]
			c.ID, c.Cgroup = id, scopes[id]
			list = append(list, c)
		}
	}
	stopped := m.stopped(p.UID)
	list = slices.DeleteFunc(list, func(c Container) bool {
		if c.Cgroup == "" {
			return true // it has none that could be found
		}
		return stopped[c.Cgroup] || m.empty(c.Cgroup)
	})
	for i := range list {
		list[i].WorkingSet, _ = m.Cgroups.WorkingSet(list[i].Cgroup) // for the message only
	}
	return list
}

// stopped are the containers of a pod that were told to end lately, by their cgroups: a live move gives them another one.
func (m *Manager) stopped(uid string) map[string]bool {
	stopped := map[string]bool{}
	for _, e := range slices.Concat(m.last, m.state.Open) {
		if e.UID != uid || e.DryRun || time.Since(e.stopping) > retryInterval {
			continue
		}
		for _, c := range e.Containers {
			stopped[c.Cgroup] = true
		}
	}
	return stopped
}

// stop stops the containers of an eviction: at once by the kernel, where there is no grace period. The runtime sees them end as it
// sees them killed by anybody else; asked to, it would take a hundred times as long (docs/architecture.md).
func (m *Manager) stop(ctx context.Context, e Eviction) {
	for _, c := range e.Containers {
		if e.Grace > 0 {
			m.ask(ctx, e, c)
			continue
		}
		if err := m.kill(c); err != nil {
			if !errors.Is(err, errNoKill) {
				m.failed(e, StepStop, err)
			}
			m.ask(ctx, e, c)
		}
	}
}

// errNoKill says that the kernel cannot kill a cgroup: before Linux 5.14.
var errNoKill = errors.New("no cgroup.kill")

// kill kills what is in a container. That it is gone already is success.
func (m *Manager) kill(c Stopped) error {
	if c.Cgroup == "" {
		return fmt.Errorf("container %s has no cgroup", c.ID) // the root's would be the whole node
	}
	err := m.Kill(c.Cgroup)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if populated, _ := m.Cgroups.Populated(c.Cgroup); populated {
		return errNoKill
	}
	return nil
}

// killAll kills what is in the cgroups, which are containers of an eviction without a grace period.
func (m *Manager) killAll(e Eviction, cgroups []string) {
	for _, cgroup := range cgroups {
		if err := m.kill(Stopped{Cgroup: cgroup}); err != nil && !errors.Is(err, errNoKill) {
			m.failed(e, StepStop, err)
		}
	}
}

// empty reports whether no process runs in a cgroup. One that cannot be read may have some.
func (m *Manager) empty(cgroup string) bool {
	populated, err := m.Cgroups.Populated(cgroup)
	return err == nil && !populated
}

// ask has the runtime stop a container, and does not wait for it.
func (m *Manager) ask(ctx context.Context, e Eviction, c Stopped) {
	m.watching.Go(func() {
		if err := m.Runtime.Stop(ctx, c.ID, e.Grace); err != nil && ctx.Err() == nil {
			if populated, _ := m.Cgroups.Populated(c.Cgroup); populated {
				m.failed(e, StepStop, err)
			}
		}
		m.wake()
	})
}

// hurry ends the grace period of an eviction, which has come to be one for the given threshold.
func (m *Manager) hurry(ctx context.Context, e Eviction, threshold Threshold) {
	if open := m.open(e.UID, e.Time); open != nil {
		open.Grace = 0
		open.Threshold = threshold
		open.stopping, open.freed = time.Now(), time.Now()
	}
	e.Grace = 0
	m.save()
	m.stop(ctx, e)
}
