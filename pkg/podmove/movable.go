package podmove

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/priority"
	"nodepartition/internal/unitname"
)

// move decides how and when misplaced containers of a pod are moved.
func (d *Decision) move(
	s Snapshot,
	pod Pod,
	to unitname.Partition,
	misplaced []Container,
	creating bool,
	report *PodReport,
) {
	reason := func(r Reason, next string) { report.Reason, report.Next = r, next }
	if s.Moving == pod.UID {
		reason(ReasonMoving, "wait for it")
		return
	}
	if pod.Kubelet != nil && pod.Kubelet.Terminating {
		reason(ReasonTerminating, "nothing: it is being deleted")
		return
	}
	ordered := s.Ordered[pod.UID]
	var method Method
	switch {
	case ordered && s.NRI == Working && s.Config.Mode != OnlyLive:
		method = Restart
	case s.Config.Mode == Never && !ordered:
		reason(
			ReasonForbidden,
			"partition-monitor move "+pod.Namespace+"/"+pod.Name+", or delete the pod, or run the monitor without --move=never",
		)
		return
	case s.Config.Mode == OnlyLive, s.Config.Mode == Auto && s.NRI == Unavailable:
		method = Live
	case s.NRI == Working:
		method = Restart
		if what := protectedPod(pod); what != "" && s.Config.Mode == Auto {
			reason(
				ReasonNextStart,
				"wait for its next start or a reboot, or restart it with partition-monitor move "+pod.Namespace+"/"+pod.Name+
					", or run the monitor with --move=restart: "+what+" is not restarted to be moved",
			)
			return
		}
	default:
		// A container that is stopped now would come back in the same place.
		d.Wait = d.Wait || s.NRI == Awaited
		reason(ReasonNoNRI, "wait for the runtime to serve NRI; see --nri-socket")
		return
	}
	next, refusal := refused(pod, method, misplaced, creating)
	if ordered && method == Live && refusal != "" && s.NRI == Working {
		method = Restart
		next, refusal = refused(pod, method, misplaced, creating)
	}
	if refusal != "" {
		d.Wait = d.Wait || creating
		reason(refusal, next)
		return
	}
	switch {
	case s.Moving != "" && ordered, d.Move != nil && ordered:
		reason(ReasonPending, oneAtATime)
	case ordered:
		d.begin(pod, to, method, misplaced, report)
	case method == Restart && s.RestartsFail:
		reason(
			ReasonFailed,
			"no pod is restarted until the runtime connects over NRI again or the configuration changes: a restarted "+
				"container was not where it was to be; the journal of the monitor says which",
		)
	case method == Restart && s.GivenUp[pod.UID]:
		reason(ReasonFailed, "it is not restarted again; the journal of the monitor says what failed")
	case s.Backoff[pod.UID]:
		reason(ReasonFailed, "it is tried again; the journal of the monitor says what failed")
	case method == Restart && s.Awaited != "":
		reason(ReasonPending, "wait: "+s.Awaited+" was restarted, and is not Ready again")
	case s.Moving != "" || d.Move != nil:
		reason(ReasonPending, oneAtATime)
	default:
		d.begin(pod, to, method, misplaced, report)
	}
}

const oneAtATime = "wait: pods are moved one at a time"

// begin decides to move the pod now.
func (d *Decision) begin(pod Pod, to unitname.Partition, method Method, misplaced []Container, report *PodReport) {
	report.Reason, report.Next = ReasonPending, "it is moved next"
	d.Move = &Move{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, To: to, Method: method, Slice: pod.slice(to),
		Containers: inOrder(misplaced, method), GracePeriod: gracePeriod(pod),
		WasReady: pod.Kubelet != nil && pod.Kubelet.Ready,
	}
}

// protectedPod describes a protected pod, which mode Auto does not restart without an operator's
// order. It returns "" for any other pod. If the kubelet does not report the priority, a
// v1.PodQOSGuaranteed pod counts as protected: critical pods are in that class more often than not.
func protectedPod(pod Pod) string {
	switch {
	case pod.Static:
		return "a static pod"
	case pod.Kubelet == nil && pod.QoS == v1.PodQOSGuaranteed:
		return "a pod that may be critical for the node"
	case pod.Kubelet != nil && pod.Kubelet.Priority >= priority.NodeCritical:
		return "a pod that is critical for the node"
	}
	return ""
}

// refused returns the reason why the pod cannot be moved by that method now, and what can be done
// about it.
func refused(pod Pod, method Method, misplaced []Container, creating bool) (next string, r Reason) {
	if creating {
		// The runtime is working on the pod: it would lose a scope that is replaced now.
		return "wait until its containers are created", ReasonStarting
	}
	if method == Live {
		for _, c := range misplaced {
			if c.OwnCgroups {
				return "restart the pod: container " + c.Name + " has cgroups of its own, which cannot be moved with it", ReasonOwnCgroups
			}
		}
		return "", ""
	}
	switch {
	case pod.Kubelet == nil:
		return "delete the pod, or use --move=live: the kubelet does not report its restartPolicy (Pods API, kubelet 1.37)", ReasonUnknownPolicy
	case pod.Kubelet.Initializing:
		return "wait until its init containers have ended", ReasonStarting
	}
	for _, c := range misplaced {
		if !c.Restarts {
			return "wait for its end, delete it, or use --move=live: its restartPolicy does not bring it back", ReasonRestartPolicy
		}
	}
	return "", ""
}

// inOrder sorts containers for a move. A restart takes the main containers first, then the sidecars
// from the last to the first, as the kubelet does when it ends a pod (KEP-753). So the containers
// that the others need are there while those come back.
func inOrder(containers []Container, method Method) []Container {
	list := slices.Clone(containers)
	slices.SortStableFunc(list, func(a, b Container) int {
		if a.Sidecar != b.Sidecar {
			if a.Sidecar {
				return 1
			}
			return -1
		}
		if a.Sidecar && method == Restart {
			return cmp.Compare(b.Order, a.Order)
		}
		return cmp.Compare(a.Order, b.Order)
	})
	return list
}

// defaultGracePeriod is the grace period of a pod that sets none
// (v1.DefaultTerminationGracePeriodSeconds).
const defaultGracePeriod = 30 * time.Second

func gracePeriod(pod Pod) time.Duration {
	if pod.Kubelet == nil {
		return defaultGracePeriod
	}
	return pod.Kubelet.GracePeriod
}
