package podmove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// order is an operator's request to move one pod. It lifts every protection of the pod:
// --move=never, a static or node-critical pod, an earlier move that failed, another pod that is not
// Ready again. It does not lift what would leave the pod stopped or in the same place: no NRI, a
// restartPolicy that does not bring it back, a pod that starts or ends. It is good for one attempt:
//
//	given -> resolved to a UID by each reconcile -> begun: a move of the pod is under way -> answered
//	  |                |
//	  |                +-> answered: in its place, refused, no such pod, the reconcile failed
//	  +-> withdrawn: the caller stopped waiting
type order struct {
	pod types.NamespacedName
	// uid is the UID of the pod that the last reconcile found. It is empty before.
	uid string
	// move is the move of the pod whose end answers the order. It is nil until one has begun.
	move *underway
	done chan outcome
}

// outcome is the answer to an order.
type outcome struct {
	where string
	err   error
}

var (
	// ErrNoPod means that no such pod is on this node, or that it is gone.
	ErrNoPod = errors.New("no such pod is on this node")
	// ErrNotMoved means that the pod was not touched.
	ErrNotMoved = errors.New("not moved")
)

// MoveNow moves a pod to where it belongs on behalf of an operator: by a restart if the runtime
// serves NRI, otherwise live, as far as the mode allows. It returns where the pod is, its slice,
// once the pod is there and, after a restart, Ready again. If the error is ErrNotMoved, nothing was
// done. ctx bounds the wait: a move that has begun continues.
func (r *Reconciler) MoveNow(ctx context.Context, pod types.NamespacedName) (where string, err error) {
	o := &order{pod: pod, done: make(chan outcome, 1)}
	r.mu.Lock()
	r.orders = append(r.orders, o)
	r.mu.Unlock()
	r.Urge()
	select {
	case answer := <-o.done:
		return answer.where, answer.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(o)
	if o.move != nil {
		return "", fmt.Errorf("%s is being moved, and the move continues: %w", pod, context.Cause(ctx))
	}
	return "", fmt.Errorf("%w: %s: %w", ErrNotMoved, pod, context.Cause(ctx))
}

// drop removes an order. It is called with mu held.
func (r *Reconciler) drop(o *order) {
	r.orders = slices.DeleteFunc(r.orders, func(other *order) bool { return other == o })
}

// takeOrders resolves the orders that have not begun, and returns the UIDs of their pods. It
// answers those whose pod is not on the node. It is called with mu held.
func (r *Reconciler) takeOrders(pods []Pod) map[string]bool {
	ordered := map[string]bool{}
	r.answer(nil, func(o *order) *outcome {
		if pod, ok := named(pods, o.pod); ok {
			o.uid = pod.UID
			ordered[o.uid] = true
			return nil
		}
		return &outcome{err: fmt.Errorf("%s: %w", o.pod, ErrNoPod)}
	})
	return ordered
}

// named returns the pod of that name. Of several it prefers one that is not being deleted, one that
// the kubelet reports, and one whose sandbox runs: a deleted pod may already have a successor of
// its name.
func named(pods []Pod, name types.NamespacedName) (Pod, bool) {
	rank := func(p Pod) int {
		switch {
		case p.Kubelet != nil && !p.Kubelet.Ends() && p.Ready:
			return 0
		case p.Kubelet != nil && !p.Kubelet.Ends():
			return 1
		case p.Kubelet == nil && p.Ready:
			return 2
		}
		return 3
	}
	found := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool {
		return !p.Exists || p.Namespace != name.Namespace || p.Name != name.Name
	})
	if len(found) == 0 {
		return Pod{}, false
	}
	return slices.MinFunc(found, func(a, b Pod) int { return cmp.Compare(rank(a), rank(b)) }), true
}

// judgeOrders answers the orders that have nothing to wait for after a decision, and attaches the
// others to a move. It drops a move that was decided for an order that was withdrawn since.
func (r *Reconciler) judgeOrders(s Snapshot, d *Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.Move != nil {
		given := slices.ContainsFunc(r.orders, func(o *order) bool { return o.move == nil && o.uid == d.Move.UID })
		//guard: a move for an order that was withdrawn does not begin
		if s.Ordered[d.Move.UID] && !given {
			d.Move, d.Wait = nil, true
		} else {
			move := r.begin(d.Move)
			//guard: a move that was overtaken before it began does not begin
			move.overtaken = !s.Config.sameMembers(r.config.with(s.Config.names()))
		}
	}
	r.answer(nil, func(o *order) *outcome {
		if o.uid == "" {
			return nil // given after the snapshot
		}
		if o.move = r.underway[o.uid]; o.move != nil {
			return nil
		}
		return verdict(d.Pods, o)
	})
}

// verdict returns the answer to an order for a pod that is not being moved. It returns nil if the
// pod's turn is still to come.
func verdict(reports []report.Pod, o *order) *outcome {
	i := slices.IndexFunc(reports, func(p report.Pod) bool { return p.UID == o.uid })
	if i < 0 || reports[i].Containers == 0 {
		return &outcome{
			err: fmt.Errorf("%w: %s: none of its containers runs; it is placed when it starts", ErrNotMoved, o.pod),
		}
	}
	switch out := reports[i]; {
	case out.Misplaced == 0:
		where := fmt.Sprintf("%s already, and belongs to the partition %s", out.Slice, out.Belongs)
		if out.Belongs == partition.Default {
			where += ": no partition that is on has its namespace, or gives it a type"
		}
		return &outcome{where: where}
	case out.Reason == report.Pending, out.Reason == report.Starting, out.Reason == report.Moving: // or just moved
		return nil
	default:
		return &outcome{err: fmt.Errorf("%w: %s: %s: %s", ErrNotMoved, o.pod, out.Reason, out.Next)}
	}
}

// refuseOrders answers all orders that have not begun.
func (r *Reconciler) refuseOrders(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer(nil, func(o *order) *outcome {
		return &outcome{err: fmt.Errorf("%w: %s: %w", ErrNotMoved, o.pod, why)}
	})
}

// answer asks for the outcome of each order of a move, and of those that have not begun if the move
// is nil. It ends those that have one. It is called with mu held.
func (r *Reconciler) answer(u *underway, of func(*order) *outcome) {
	r.orders = slices.DeleteFunc(r.orders, func(o *order) bool {
		if o.move != u {
			return false
		}
		answer := of(o)
		if answer != nil {
			o.done <- *answer
		}
		return answer != nil
	})
}

// underway is a pod that is being moved, or that was restarted and is not Ready again.
type underway struct {
	*Move
	// placed means that the pod is in its place and not Ready yet.
	placed bool
	// overtaken means that it may have belonged to another partition since the move was decided.
	overtaken bool
}

// begin records a move. It is called with mu held.
func (r *Reconciler) begin(m *Move) *underway {
	r.moving = m.UID
	u := &underway{Move: m}
	r.underway[m.UID] = u
	return u
}

// overtake marks the moves of pods that belong elsewhere by now, because the configuration has
// changed. It is called with mu held.
func (r *Reconciler) overtake(pods []Pod, rules partition.Rules) {
	for i := range pods {
		if u := r.underway[pods[i].UID]; u != nil && pods[i].Exists {
			//guard: a restart that nothing overtook stops the others
			u.overtaken = u.overtaken || rules.Partition(pods[i].member()) != u.To
		}
	}
}

// end answers the orders of a move. It is called with mu held, together with the other effects of
// the end of the move: the next reconcile may begin another one.
func (r *Reconciler) end(u *underway, err error) {
	if r.underway[u.UID] == u {
		delete(r.underway, u.UID)
	}
	there := slices.ContainsFunc(r.options.Table.Pods(), func(p Pod) bool {
		return p.UID == u.UID && p.Exists && !u.ends(p)
	})
	if err == nil && !there {
		err = fmt.Errorf("%s was deleted while it was moved: %w", u.fullName(), ErrNoPod)
	}
	r.moved(u, err)
}

// moved answers the orders of a move. It is called with mu held.
func (r *Reconciler) moved(u *underway, err error) {
	r.answer(u, func(*order) *outcome { return &outcome{u.Slice, err} })
}

// awaitedPods returns the pods that were restarted and are not Ready again, by namespace and name.
// It is called with mu held.
func (r *Reconciler) awaitedPods() string {
	var names []string
	for _, u := range r.underway {
		if u.placed {
			names = append(names, u.fullName())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
