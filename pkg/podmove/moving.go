package podmove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/livemove"
)

const (
	// firstBackoff and maxBackoff bound how long a pod is left alone after a failed move. The time
	// doubles with each failure.
	firstBackoff, maxBackoff = 30 * time.Second, 30 * time.Minute
	// moveTimeout bounds how long a stopped container may take to come back. The kubelet's longest
	// back-off is five minutes (MaxContainerBackOff, pkg/kubelet/kubelet.go).
	moveTimeout = 6 * time.Minute
	// stopSlack is the time beyond its grace period in which a container ends that a runtime was asked
	// to stop, if the request has failed and the runtime was asked all the same.
	stopSlack = 10 * time.Second
)

// move moves a pod, waits until it is in its place, and stores the outcome.
func (r *Reconciler) move(ctx context.Context, m *Move) {
	var err error
	moved, pointless := 0, false
	for _, c := range m.Containers {
		if err = r.pointless(m); err != nil {
			err, pointless = fmt.Errorf("%s: %w", m.fullName(), err), true
			break
		}
		moved++
		begin := time.Now()
		r.options.Events.Moving(*m, c)
		if m.Method == Restart {
			err = r.restart(ctx, m, c)
		} else {
			err = r.live(ctx, m, c)
		}
		if ctx.Err() != nil {
			break // the next start finds the remaining work
		}
		r.options.Events.Placed(
			Placement{Method: m.Method, To: m.To, Took: time.Since(begin), Err: err, Move: m, Container: c},
		)
		if err != nil {
			break
		}
	}
	r.mu.Lock()
	r.moving = ""
	u := r.underway[m.UID]
	switch {
	case pointless && moved == 0:
		//guard: an order waits for a move that begins
		r.answer(u, func(o *order) *outcome { o.move = nil; return nil })
	case pointless: // the next reconcile decides
	case err != nil:
		f := r.failed[m.UID]
		//guard: a crash loop is not left alone for longer and longer
		if errors.Is(err, livemove.ErrGone) {
			f.times = 0
		}
		f.until = time.Now().Add(min(firstBackoff<<min(f.times, 10), maxBackoff))
		f.times++
		//guard: a pod that was stopped in vain is given up
		f.givenUp = errors.Is(err, ErrInVain)
		r.failed[m.UID] = f
		r.restartsFail = r.restartsFail || errors.Is(err, ErrWrongPlace)
	default:
		delete(r.failed, m.UID)
	}
	// A pod that was restarted in part is waited for, too: the runtime may have failed meanwhile. So
	// is one that did not come back in time, because the next one would not either.
	//guard: a container that has not come back holds all pods
	missing := errors.Is(err, ErrInVain) && !errors.Is(err, ErrWrongPlace)
	stopped := m.Method == Restart && moved > 0 && !errors.Is(err, ErrWrongPlace)
	//guard: a pod whose restart failed is waited for
	u.placed = missing || stopped && m.WasReady
	if u.placed && err != nil {
		r.moved(u, err)
	}
	if !u.placed {
		r.end(u, err)
	}
	r.mu.Unlock()
	r.Wake()
	if u.placed {
		//guard: a container that was asked to end runs and is Ready for a while
		if err != nil && !missing && !pointless {
			select {
			case <-time.After(m.Kubelet.GracePeriod + stopSlack):
			case <-ctx.Done():
			}
		}
		r.await(ctx, u, m, missing, err == nil)
	}
}

var (
	// ErrInVain means that a container was stopped to be moved and was not moved by that: it has not
	// come back within moveTimeout. The pod is not restarted again, and no other pod is until it is
	// back.
	ErrInVain = errors.New("it was stopped in vain")
	// ErrWrongPlace means that the container came back in the wrong place. Placement at creation does
	// not work and would not place another container either: no other pod is restarted.
	ErrWrongPlace = fmt.Errorf("%w: it came back in the wrong place", ErrInVain)
	// errNoKubelet means that the kubelet stopped to answer before the container was stopped.
	errNoKubelet = errors.New("the kubelet does not answer")
	// errNoNRI means that the runtime stopped to serve NRI before the container was stopped: it would
	// come back in the same place.
	errNoNRI = errors.New("the runtime does not serve NRI")
	// errEnds means that the pod is deleted or evicted meanwhile.
	errEnds = errors.New("it ends")
	// errOvertaken means that the pod may have belonged elsewhere since the move was decided. The
	// container may have come back where it belongs now, and the next reconcile decides that.
	errOvertaken = errors.New("the configuration or the pod's right has changed meanwhile")
)

// elsewhere returns what it means that a moved container came back in another place. The reconcile
// that found it there has asked for the pod's right after that.
func (r *Reconciler) elsewhere(m *Move) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underway[m.UID].overtaken {
		return errOvertaken
	}
	return ErrWrongPlace
}

// pointless returns why the next container is not touched: the pod may belong elsewhere, which the
// next reconcile decides, or nothing would start the container again.
func (r *Reconciler) pointless(m *Move) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	//guard: a move ends when the pod may belong elsewhere
	case r.underway[m.UID].overtaken:
		return errOvertaken
	//guard: no container is stopped after the kubelet has gone away
	case m.Method == Restart && !r.options.Gatherer.Kubelet.Answers():
		return errNoKubelet
	//guard: no container is stopped after NRI has gone away
	case m.Method == Restart && r.options.NRI() != Working:
		return errNoNRI
	//guard: no container of a pod that ends is moved
	case slices.ContainsFunc(r.options.Table.Pods(), m.ends):
		return errEnds
	}
	return nil
}

// ends reports whether it is the pod of the move, and ends.
func (m *Move) ends(pod Pod) bool {
	return pod.UID == m.UID && pod.Kubelet != nil && pod.Kubelet.Ends()
}

// await waits until a restarted pod is Ready again, or gone, or moved once more. With OnlyRestart
// it waits at most moveTimeout, the time that a container has to come back. If that was too short,
// that time begins when the container runs. Unless it was seen to come back, the last reconcile may
// have been before the stop, and says nothing.
func (r *Reconciler) await(ctx context.Context, u *underway, m *Move, missing, seen bool) {
	var late <-chan time.Time
	running := *m
	running.WasReady = false
	for {
		r.mu.Lock()
		//guard: a container that has not come back is waited for without a bound
		//guard: the time to become Ready begins when a container that was missing runs
		if late == nil && (!missing || isReady(r.options.Table.Pods(), &running)) {
			late = time.After(moveTimeout)
		}
		//guard: the wait of a pod ends when it is moved once more
		if r.underway[u.UID] != u {
			r.end(u, fmt.Errorf("%s was moved again before it was Ready", u.fullName()))
			r.mu.Unlock()
			return
		}
		if seen && isReady(r.options.Table.Pods(), m) {
			r.end(u, nil)
			r.mu.Unlock()
			r.Wake()
			return
		}
		passed, mode := r.passed, r.config.Mode
		r.mu.Unlock()
		select {
		case <-passed:
			seen = true
		case <-late:
			r.options.Events.NotReady(*m)
			r.mu.Lock()
			err := fmt.Errorf("%s is in its place, and not Ready again after %s", u.fullName(), moveTimeout)
			if mode == OnlyRestart {
				r.end(u, err)
			} else {
				r.moved(u, err)
			}
			r.mu.Unlock()
			r.Wake()
			if mode == OnlyRestart {
				return
			}
		case <-ctx.Done():
			// It is in its place, and no reconcile follows: the partition may be switched off and empty now.
			r.mu.Lock()
			r.end(u, nil)
			r.mu.Unlock()
			return
		}
	}
}

// isReady reports whether there is nothing to wait for: the pod and the moved containers are ready,
// or run again if the pod was not Ready before, the pod ends or is gone, or the kubelet does not
// report it.
func isReady(pods []Pod, m *Move) bool {
	for _, pod := range pods {
		if pod.UID != m.UID || !pod.Exists {
			continue
		}
		if pod.Kubelet == nil || pod.Kubelet.Ends() {
			return true
		}
		return (pod.Kubelet.Ready || !m.WasReady) && !slices.ContainsFunc(m.Containers, func(moved Container) bool {
			return !slices.ContainsFunc(pod.Containers, func(c Container) bool {
				//guard: a pod that was not Ready is back when it runs
				return c.Name == moved.Name && (c.Ready || c.Running && !m.WasReady)
			})
		})
	}
	return true
}

func (r *Reconciler) live(ctx context.Context, m *Move, c Container) error {
	return r.options.Live(ctx, livemove.Request{
		Scope: c.Unit, Cgroup: partition.CgroupPath(c.Slice) + "/" + c.Unit,
		TargetSlice: m.Slice, NewName: newScope(m, c), Description: "Container " + c.Name + " of " + m.fullName(),
	})
}

// newScope returns the name of the scope that replaces a container's. A move that ended half-way
// continues with the scope that it has made. Any other move gets a name that no scope of the
// container has.
func newScope(m *Move, c Container) string {
	if c.AlsoSlice == m.Slice {
		return c.AlsoUnit
	}
	runtime := partition.RuntimeScope(c.Unit)
	live := partition.LiveScope(runtime)
	again := partition.LiveScope(live)
	names := []string{live, again, runtime}
	//guard: a container that is moved out gets the name by which the runtime finds it
	if m.To == partition.Default {
		names = []string{runtime, live, again}
	}
	return names[slices.IndexFunc(names, func(name string) bool { return name != c.Unit && name != c.AlsoUnit })]
}

func (r *Reconciler) restart(ctx context.Context, m *Move, c Container) error {
	// The kubelet reports the pod: refused leaves no other to restart.
	if err := r.options.Stop(ctx, c.ID, m.Kubelet.GracePeriod); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	for {
		r.mu.Lock()
		passed, pods := r.passed, r.options.Table.Pods()
		r.mu.Unlock()
		switch over, elsewhere := cameBack(pods, m, c); {
		case elsewhere != "":
			return fmt.Errorf("container %s of pod %s came back in %s; want %s: %w",
				c.Name, m.fullName(), elsewhere, m.Slice, r.elsewhere(m))
		case over:
			return nil
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return fmt.Errorf("container %s of pod %s is not running again after %s: %w: %w",
				c.Name, m.fullName(), moveTimeout, ErrInVain, context.Cause(ctx))
		}
	}
}

// cameBack checks for the container that the kubelet started in place of a stopped one. elsewhere
// is its slice, if that is not the one of the move.
func cameBack(pods []Pod, m *Move, old Container) (over bool, elsewhere string) {
	exists := false
	for _, pod := range pods {
		if pod.UID != m.UID || !pod.Exists {
			continue
		}
		//guard: a pod that ends does not have to come back
		exists = !m.ends(pod)
		for _, c := range pod.Containers {
			switch {
			case c.Name != old.Name || c.ID == old.ID || !c.Running || c.Slice == "":
			case c.Slice != m.Slice:
				return true, c.Slice
			default:
				return true, ""
			}
		}
	}
	// A pod that was deleted or evicted meanwhile has nothing to move.
	return !exists, ""
}
