package podmove

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// move decides how and when misplaced containers of a pod are moved.
func (d *Decision) move(s Snapshot, p placing, out *report.Pod) {
	switch {
	case s.Moving == p.pod.UID:
		because(out, report.Moving, "wait for it")
		return
	case p.pod.Kubelet != nil && p.pod.Kubelet.Ends():
		because(out, report.Terminating, "nothing: it is being deleted")
		return
	}
	method := d.method(s, p.pod, out)
	if method == "" {
		return
	}
	ordered := s.Ordered[p.pod.UID]
	next, refusal := p.refused(s, method)
	if ordered && method == Live && refusal != "" && s.NRI == Working {
		method = Restart
		next, refusal = p.refused(s, method)
	}
	if refusal != "" {
		d.Wait = d.Wait || p.creating
		because(out, refusal, next)
		return
	}
	if !d.waits(s, p.pod, method, out) {
		because(out, report.Pending, "it is moved next")
		d.Move = p.begin(method)
	}
}

// because sets the reason why a pod is misplaced, and what is done about it.
func because(p *report.Pod, r report.Reason, next string) { p.Reason, p.Next = r, next }

// method returns the method by which a misplaced pod is moved. It returns "" if the pod cannot be
// moved, and reports why.
func (d *Decision) method(s Snapshot, pod *Pod, out *report.Pod) Method {
	ordered := s.Ordered[pod.UID]
	switch {
	case ordered && s.NRI == Working && s.Config.Mode != OnlyLive:
		return Restart
	case s.Config.Mode == Never && !ordered:
		because(out, report.Forbidden, moveCommand(pod)+", or delete the pod, or run the monitor without --move=never")
		return ""
	case s.Config.Mode == OnlyLive, s.Config.Mode == Auto && s.NRI == Unavailable:
		return Live
	case s.NRI != Working:
		// A container that is stopped now would come back in the same place. A connection wakes us.
		because(out, report.NoNRI, "wait for the runtime to serve NRI; see --nri-socket")
		return ""
	}
	if what := protectedPod(pod); what != "" && s.Config.Mode == Auto {
		because(out,
			report.NextStart,
			"wait for its next start or a reboot, or restart it with "+moveCommand(pod)+
				", or run the monitor with --move=restart: "+what+" is not restarted to be moved",
		)
		return ""
	}
	return Restart
}

// moveCommand returns the command by which an operator moves a pod.
func moveCommand(pod *Pod) string { return "partition-monitor move " + pod.fullName() }

// waits reports whether a pod that can be moved is not moved now, and why.
func (d *Decision) waits(s Snapshot, pod *Pod, method Method, out *report.Pod) bool {
	ordered, busy := s.Ordered[pod.UID], s.Moving != "" || d.Move != nil
	switch {
	case ordered && busy:
		because(out, report.Pending, oneAtATime)
	case ordered:
		return false
	case method == Restart && s.RestartsFail:
		because(out,
			report.Failed,
			"no pod is restarted until the runtime connects over NRI again or the configuration changes: a restarted "+
				"container was not where it was to be; the journal of the monitor says which",
		)
	case method == Restart && s.GivenUp[pod.UID]:
		because(out, report.Failed, "it is not restarted again; the journal of the monitor says what failed")
	case s.Backoff[pod.UID]:
		because(out, report.Failed, "it is tried again; the journal of the monitor says what failed")
	case method == Restart && s.Awaited != "":
		because(out, report.Pending, "wait: "+s.Awaited+" was restarted, and is not Ready again")
	case busy:
		because(out, report.Pending, oneAtATime)
	default:
		return false
	}
	return true
}

const oneAtATime = "wait: pods are moved one at a time"

// begin returns the move of the pod.
func (p placing) begin(method Method) *Move {
	return &Move{
		Pod: p.pod, To: p.to, Method: method, Slice: p.slice,
		Containers: inOrder(p.misplaced, method),
		WasReady:   p.pod.Kubelet != nil && p.pod.Kubelet.Ready,
	}
}

// protectedPod describes a protected pod, which mode Auto does not restart without an operator's
// order. It returns "" for any other pod. If the kubelet does not report the priority, a
// v1.PodQOSGuaranteed pod counts as protected: critical pods are in that class more often than not.
func protectedPod(pod *Pod) string {
	switch {
	case pod.Static:
		return "a static pod"
	case pod.Kubelet == nil && pod.QoS == v1.PodQOSGuaranteed:
		return "a pod that may be critical for the node"
	case pod.Kubelet != nil && pod.Kubelet.Priority >= partition.NodeCritical:
		return "a pod that is critical for the node"
	}
	return ""
}

// refused returns the reason why the pod cannot be moved by that method now, and what can be done
// about it.
func (p placing) refused(s Snapshot, method Method) (next string, r report.Reason) {
	if p.creating {
		// The runtime is working on the pod: it would lose a scope that is replaced now.
		return "wait until its containers are created", report.Starting
	}
	if method == Live {
		for _, c := range p.misplaced {
			if c.OwnCgroups {
				return "restart the pod: container " + c.Name + " has cgroups of its own, which cannot be moved with it", report.OwnCgroups
			}
		}
		return "", ""
	}
	switch {
	case p.pod.Kubelet == nil:
		return "delete the pod, or use --move=live: the kubelet does not report its restartPolicy (Pods API, kubelet 1.37)", report.UnknownPolicy
	//guard: no pod is restarted while the kubelet is away
	case !s.KubeletAnswers:
		return "wait for the kubelet: it does not answer, and nothing else starts a stopped container again", report.NoKubelet
	case p.pod.Kubelet.Initializing:
		return "wait until its init containers have ended", report.Starting
	}
	for _, c := range p.misplaced {
		if !c.Restarts {
			return "wait for its end, delete it, or use --move=live: its restartPolicy does not bring it back", report.RestartPolicy
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
