package evict

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
)

func (n *node) list() []Pod {
	n.inMain("pods")
	n.flush()
	time.AfterFunc(rereadDelay-1, n.flush) // the second reading
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listed != nil {
		return slices.Concat(n.listed, n.unknown())
	}
	var list []Pod
	for _, p := range n.pods {
		pod := p.Pod
		pod.Terminating = pod.Terminating || p.failed
		for _, c := range p.containers {
			if c.running && strings.HasPrefix(c.cgroup, n.slice+"/") {
				pod.Containers = append(pod.Containers, Container{ID: c.id, Name: c.name, Cgroup: c.cgroup, Request: 1})
			}
		}
		list = append(list, pod)
	}
	return list
}

func (n *node) isKnown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.awaited
}

// unknown returns the pods that run and are not listed.
func (n *node) unknown() []Pod {
	var pods []Pod
	for _, p := range n.pods {
		if !slices.ContainsFunc(n.listed, func(known Pod) bool { return known.UID == p.UID }) {
			pods = append(pods, Pod{
				PodMeta: PodMeta{UID: p.UID, QoS: p.QoS, Cgroup: p.Cgroup, Owner: p.UID, Estimated: true},
				Unknown: true,
			})
		}
	}
	return pods
}

// refresh identifies the unknown pods after a reconcile.
func (n *node) refreshPods() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listed == nil || n.passing {
		return
	}
	n.passing = true
	time.AfterFunc(n.reconcileTakes, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.listed, n.passing = nil, false
	})
}

func (n *node) scopes(cgroup string) (map[string]string, error) {
	if n.scopesErr != nil {
		return nil, n.scopesErr
	}
	units, err := cgroups.FS(n.root).Children(cgroup)
	scopes := map[string]string{}
	for _, unit := range units {
		id, _ := strings.CutPrefix(strings.TrimSuffix(unit, ".scope"), "cri-containerd-")
		scopes[id] = cgroup + "/" + unit
	}
	return scopes, err
}

// restOf includes containers that have ended.
func (n *node) restOf(uid string) []Container {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resting[uid] = true
	var list []Container
	for _, p := range n.pods {
		for _, c := range p.containers {
			if p.UID == uid {
				list = append(list, Container{ID: c.id, Name: c.name, Cgroup: c.cgroup})
			}
		}
	}
	return list
}

func (n *node) kill(cgroup string, atLimit bool) error {
	id, _ := strings.CutPrefix(strings.TrimSuffix(filepath.Base(cgroup), ".scope"), "cri-containerd-")
	uid, _, _ := strings.Cut(id, ".")
	n.mu.Lock()
	resting := n.resting[uid]
	n.mu.Unlock()
	what := "kill " + id
	if resting {
		what = "killing the rest"
	}
	if n.call("before " + what) {
		return context.Canceled
	}
	err := n.killNow(cgroup, id, atLimit)
	if n.call("after " + what) {
		return context.Canceled
	}
	return err
}

func (n *node) killNow(cgroup, id string, atLimit bool) error {
	if n.beforeKill != nil {
		n.beforeKill(id)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.crashed != "" {
		return context.Canceled
	}
	if n.killErr != nil {
		return n.killErr
	}
	if n.noKill || !n.exit(cgroup, n.ends) {
		return fs.ErrNotExist
	}
	n.do("kill %s", id)
	if atLimit {
		n.condemn(cgroup)
	}
	return nil
}

func (n *node) lowerLimit(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.do("lower")
	return n.lower()
}

type nodeRuntime node

// Stop answers when the container has ended, as runtimes do. Containers here end only by force.
func (r *nodeRuntime) Stop(ctx context.Context, id string, grace time.Duration) error {
	n := (*node)(r)
	if n.call("stop") {
		return context.Canceled
	}
	n.mu.Lock()
	err, takes := n.stopErr, grace+n.ends
	n.asked++
	asked := func(did string) bool { return strings.HasPrefix(did, "stop "+id+" ") }
	if err == nil || !slices.ContainsFunc(n.did, asked) { // it is asked again until it answers
		n.do("stop %s %s", id, grace)
	}
	found := false
	if err == nil {
		for _, p := range n.pods {
			for _, c := range p.containers {
				found = found || c.id == id && n.exit(c.cgroup, takes)
			}
		}
	}
	n.mu.Unlock()
	if !found {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(takes):
		return nil
	}
}

type nodeAPI node

func (a *nodeAPI) Available() bool {
	if a.available != nil {
		a.available()
	}
	return !a.noAPI
}

func (a *nodeAPI) Evict(ctx context.Context, e Eviction) error {
	n := (*node)(a)
	if n.call("before API") {
		return context.Canceled
	}
	n.mu.Lock()
	n.apiCalls++
	number, answer := n.apiCalls, n.api
	n.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, number); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(4 * time.Millisecond): // to the server and back: killed containers have ended
	}
	n.mu.Lock()
	n.do("evict %s", e.Name)
	n.fail(e.UID)
	n.mu.Unlock()
	if n.call("after API") {
		return context.Canceled
	}
	return nil
}

func (a *nodeAPI) Confirm(ctx context.Context, e Eviction) (known, again bool, err error) {
	n := (*node)(a)
	if n.call("before confirming") {
		return false, false, context.Canceled
	}
	n.mu.Lock()
	n.confirms++
	number, answer := n.confirms, n.confirm
	n.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, number); err != nil {
			return false, false, err
		}
	}
	n.mu.Lock()
	n.do("confirm %s", e.Name)
	known = !slices.ContainsFunc(n.pods, func(p *nodePod) bool { return p.UID == e.UID && !p.failed })
	again = !known || n.drops > 0
	n.drops--
	n.confirmed[e.UID] = known
	n.fail(e.UID)
	n.mu.Unlock()
	if n.call("after confirming") {
		return false, false, context.Canceled
	}
	return known, again, nil
}

var errBusy = errors.New("the server is busy")
