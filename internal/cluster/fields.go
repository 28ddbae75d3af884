package cluster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/partition"
)

// What is logged when fields could not be applied.
const (
	statusFailed = "the labels and the condition of the Node could not be written, trying again"
	coresFailed  = "the resources of workload types could not be written, trying again"
)

// fields holds what one manager of fields applies to the Node, and when it does so again.
type fields struct {
	manager  string        // of kubeapi
	failed   string        // is logged when an attempt has failed
	interval time.Duration // the mean time between two applications without a change

	last  kubeapi.Node  // applied last
	known bool          // the Node has had last
	beat  time.Time     // the next application without a change
	pause time.Duration // the mean time to beat

	next  time.Time // the next attempt after one that has failed
	retry kubeapi.Retry
	said  Saying
}

// isDue reports whether want is to be applied now. The times of a condition make no difference.
func (f *fields) isDue(want kubeapi.Node, now time.Time) bool {
	switch {
	//guard: nothing is tried each second while the API server is away
	case now.Before(f.next):
		return false
	case !f.known, !equal(f.last, want):
		return true
	}
	return !want.IsEmpty() && !now.Before(f.beat)
}

// isRemoved reports whether the Node has nothing of them.
func (f *fields) isRemoved() bool { return f.known && f.last.IsEmpty() }

// equal reports whether two Nodes differ at most in the times of the condition.
func equal(a, b kubeapi.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Cores, b.Cores) &&
		(a.Ready == nil) == (b.Ready == nil) && (a.Ready == nil || same(*a.Ready, *b.Ready))
}

// has reports whether a Node has these resources.
func has(n kubeapi.Node, cores map[string]int64) bool {
	for kind, want := range cores {
		if value, ok := n.Cores[kind]; !ok || value != want {
			return false
		}
	}
	return true
}

// send applies want. A value that another program has changed is overwritten. For a resource the
// log says which program that was. The controller of a rollout may write the same labels.
func (f *fields) send(ctx context.Context, c nodeClient, log *slog.Logger, want kubeapi.Node) error {
	n, err := c.apply(ctx, f.manager, want, f.manager == kubeapi.StatusManager)
	if apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		log.Warn("another program has changed the resource of a workload type on the Node, and it is written again", "error", err)
		n, err = c.apply(ctx, f.manager, want, true)
	}
	labels, kinds := left(n.Labels, f.last.Labels, want.Labels), left(n.Cores, f.last.Cores, want.Cores)
	//guard: what another program owns, too, is removed with what it was for
	if err == nil && len(labels)+len(kinds) > 0 {
		n, err = c.remove(ctx, labels, kinds)
	}
	//guard: a value that an admission policy takes back is a failure
	if err == nil && !has(n, want.Cores) {
		err = errNotKept
	}
	return err
}

// left returns what a Node has of what was applied last and is not wanted any more: a kubelet that
// sets a resource to zero owns it, and so does the controller of a rollout that writes a label.
func left[V any](on, last, want map[string]V) []string {
	var names []string
	for name := range last {
		_, is := on[name]
		if _, stays := want[name]; is && !stays {
			names = append(names, name)
		}
	}
	return names
}

// errNotKept means that something between us and the store changes what we write.
var errNotKept = errors.New("the API server has accepted the values and has others: " +
	"does an admission policy or a webhook change nodes/status?")

// applied notes that the Node has what is wanted.
func (f *fields) applied(log *slog.Logger, want kubeapi.Node, now time.Time) {
	for _, kind := range slices.Sorted(maps.Keys(want.Cores)) {
		if value := want.Cores[kind]; f.last.Cores[kind] != value {
			log.Info("the resource of a workload type is on the Node", "resource", partition.WorkloadResource(kind), "capacity", value)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(f.last.Cores)) {
		if _, ok := want.Cores[kind]; !ok {
			log.Info("the resource of a workload type is removed from the Node", "resource", partition.WorkloadResource(kind))
		}
	}
	f.last, f.known = want, true
	f.next, f.retry = time.Time{}, kubeapi.Retry{}
	f.pause = min(2*f.pause, f.interval)
	//guard: the heartbeats of many nodes are spread after an outage
	f.beat = now.Add(kubeapi.Spread(f.pause))
}
