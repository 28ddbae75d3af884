package daemon

import (
	"errors"
	"log/slog"
	"time"

	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/livemove"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// placementEvents counts and logs the placements of pods. It implements podmove.Events.
type placementEvents struct {
	metrics *metrics.Metrics
	log     *slog.Logger
	// passed is called at each tick, after the reconcile if there is one.
	passed func()
	passes attempts
}

func newPlacementEvents(m *metrics.Metrics, log *slog.Logger, passed func()) *placementEvents {
	return &placementEvents{metrics: m, log: log, passed: passed, passes: attempts{
		log: log, failed: "reconciling failed, retrying", works: "reconciling succeeds again",
	}}
}

// Reconciled logs a reconcile that fails for a new reason, and the first one that succeeds after
// that.
func (e *placementEvents) Reconciled(took time.Duration, err error) {
	e.metrics.Reconciled(took, err)
	e.passes.note(err)
	e.passed()
}

func (e *placementEvents) Quiet() { e.passed() }

func (e *placementEvents) Moving(m podmove.Move, c podmove.Container) {
	what := "moving the processes of a container, because its pod is in the wrong partition"
	if m.Method == podmove.Restart {
		what = "stopping a container, which the kubelet starts again, because its pod is in the wrong partition"
	}
	e.of(m).Info(what, "container", c.Name, "id", c.ID, "from", c.Slice)
}

func (e *placementEvents) Placed(p podmove.Placement) {
	//guard: a container that ends while it is moved has not failed to be placed
	if errors.Is(p.Err, livemove.ErrGone) {
		e.of(*p.Move).Info("a container ended before its processes were moved", "container", p.Container.Name, "error", p.Err)
		return
	}
	e.metrics.Placed(p)
	switch {
	case p.Err == nil:
	case p.Move == nil:
		e.log.Error("a container was not placed at its creation", "container", p.Container.ID, "error", p.Err)
	case errors.Is(p.Err, podmove.ErrWrongPlace):
		e.of(*p.Move).
			Error("a restart did not move a pod; no pod is restarted until the runtime connects over NRI again or the configuration changes",
				"container", p.Container.Name, "error", p.Err)
	case errors.Is(p.Err, podmove.ErrInVain):
		e.of(*p.Move).
			Error("a restart did not move a pod; it is not restarted again, and no other pod is until it runs", "container", p.Container.Name, "error", p.Err)
	default:
		e.of(*p.Move).Error("moving a pod failed, retrying later", "container", p.Container.Name, "error", p.Err)
	}
}

func (e *placementEvents) NotPrepared(namespace, pod string, err error) {
	e.log.Error(
		"a pod's slice could not be created before its first container; the next reconcile creates it",
		"namespace", namespace, "pod", pod, "error", err,
	)
}

func (e *placementEvents) NotReady(m podmove.Move) {
	e.of(m).Warn("a restarted pod is in the right partition, but not Ready yet; no other pod is restarted until it is")
}

func (e *placementEvents) Killing(scope string) {
	e.log.Info("ending a scope whose container is gone", "scope", scope)
}

func (e *placementEvents) NotFollowed(pod report.Pod, flaw string) {
	e.log.Warn(
		"an annotation about the CPU time of a container is not followed; its request of the workload type's resource counts",
		"namespace", pod.Namespace, "pod", pod.Name, "uid", pod.UID, "flaw", flaw,
	)
}

func (e *placementEvents) Outlived(o report.Outlived) {
	log := e.log.With("scope", o.Scope, "slice", o.Slice)
	if o.Kill {
		log.Warn("processes have outlived their pod or their container, which is not known any more: killing them")
		return
	}
	log.Warn("processes have outlived their pod; the kubelet does not report its pods, so that they are left alone")
}

func (e *placementEvents) of(m podmove.Move) *slog.Logger {
	return e.log.With("namespace", m.Namespace, "pod", m.Name, "uid", m.UID, "to", m.To, "method", m.Method)
}
