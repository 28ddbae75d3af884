package podmove

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// An operator's word for one pod is an order. It lifts what the configuration spares the pod: --move=never, a static or
// node-critical pod, an earlier move that failed, another pod that is not Ready again. It does not lift what would leave the
// pod stopped or in the same place: no NRI, a restartPolicy that does not bring it back, a pod that starts or ends.
//
// An order is good for one attempt, and ends with the call that gave it, unless the move has begun.
type order struct {
	// taken tells that a pass decides with it, seen that the pass has ended, begun that the pod is being moved.
	taken, seen, begun bool
	// done gets the outcome of the move.
	done chan error
}

var (
	// ErrNoPod says that no such pod runs on this node.
	ErrNoPod = errors.New("no such pod runs containers on this node")
	// ErrNotMoved says that the pod was left as it is.
	ErrNotMoved = errors.New("not moved")
)

// MoveNow moves a pod to where it belongs because an operator asks for it: by a restart where the runtime serves NRI, otherwise
// live, as far as the mode allows that. It returns when the pod is there and, after a restart, Ready again, with what the last
// pass found of it. An error that is ErrNoPod or ErrNotMoved says that nothing was done; ctx bounds the wait, not the move.
func (r *Reconciler) MoveNow(ctx context.Context, pod types.NamespacedName) (PodReport, error) {
	o := &order{done: make(chan error, 1)}
	r.mu.Lock()
	if r.orders[pod] != nil {
		r.mu.Unlock()
		return PodReport{}, fmt.Errorf("%w: somebody else is moving %s: wait for that", ErrNotMoved, pod)
	}
	r.orders[pod] = o
	r.mu.Unlock()
	defer r.withdraw(pod, o)
	r.Urge()
	for {
		r.mu.Lock()
		passed, seen, begun, report := r.passed, o.seen, o.begun, r.report
		r.mu.Unlock()
		if seen && !begun {
			found, err := awaits(report, pod)
			if err != nil || found.Misplaced == 0 {
				return found, err
			}
		}
		select {
		case <-passed:
		case err := <-o.done:
			found, _ := find(r.Report(), pod)
			return found, err
		case <-ctx.Done():
			err := context.Cause(ctx)
			if begun {
				return PodReport{}, fmt.Errorf("%s is being moved, which goes on: %w", pod, err)
			}
			return PodReport{}, errors.Join(fmt.Errorf("%w: %w", ErrNotMoved, err), r.Err())
		}
	}
}

// awaits tells whether the move of a pod can be waited for: nil where it is in its place or its turn comes.
func awaits(report Report, pod types.NamespacedName) (PodReport, error) {
	found, ok := find(report, pod)
	switch {
	case !ok:
		return found, fmt.Errorf("%s: %w", pod, ErrNoPod)
	case found.Misplaced == 0:
		return found, nil
	}
	switch found.Reason {
	case ReasonPending, ReasonMoving, ReasonStarting:
		return found, nil
	}
	return found, fmt.Errorf("%w: %s: %s: %s", ErrNotMoved, pod, found.Reason, found.Next)
}

// find returns the pod of that name. One that is being deleted stands back behind the one that takes its place.
func find(report Report, pod types.NamespacedName) (found PodReport, ok bool) {
	for _, p := range report.Pods {
		if p.Namespace == pod.Namespace && p.Name == pod.Name && (!ok || found.Reason == ReasonTerminating) {
			found, ok = p, true
		}
	}
	return found, ok
}

// withdraw drops an order that no move has answered.
func (r *Reconciler) withdraw(pod types.NamespacedName, o *order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.orders[pod] == o {
		delete(r.orders, pod)
	}
}

// answer ends the order for a pod, where there is one. It is called with mu held, in one with the end of the move: the next
// pass would begin another.
func (r *Reconciler) answer(m *Move, err error) {
	pod := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	if o := r.orders[pod]; o != nil && o.begun {
		o.done <- err
		delete(r.orders, pod)
	}
}

// takeOrders returns the pods that an operator wants moved, for a pass that decides now. It is called with mu held.
func (r *Reconciler) takeOrders() []types.NamespacedName {
	var pods []types.NamespacedName
	for pod, o := range r.orders {
		o.taken = true
		if !o.begun {
			pods = append(pods, pod)
		}
	}
	return pods
}

// begin notes that a pod is being moved. It is called with mu held.
func (r *Reconciler) begin(m *Move) {
	r.moving = m.UID
	if o := r.orders[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}]; o != nil {
		o.begun = true
	}
}

// ordered tells whether an operator wants the pod moved.
func (s Snapshot) ordered(pod Pod) bool {
	return slices.Contains(s.Ordered, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
}
