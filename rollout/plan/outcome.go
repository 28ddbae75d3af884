package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/text"
)

// ContainerName is the name of the one container of the pod of a node.
const ContainerName = "node"

const (
	// startWithin is the time in which a pod has to start. One that does not has not changed anything.
	startWithin = 5 * time.Minute
	// backWithin is the time in which a node has to be ready again. One that is not counts as failed
	// until it is.
	backWithin = 5 * time.Minute
	// awayWithin is the time in which the node lifecycle controller finds a kubelet that is silent
	// (--node-monitor-grace-period of 1.32: 50 s, in steps of 5 s). The first nodes are watched for so
	// long after their soak, and no longer than the soak.
	awayWithin = time.Minute
	// maxMessage bounds the message of a record, in bytes.
	maxMessage = 512
)

// The states of a try beside Kept, Failed, Refused and Skipped.
const (
	running  = "running"
	removed  = "removed"
	surveyed = "surveyed"
	// gone is a try whose end says nothing about the node: it leaves, or has left.
	gone = "gone"
)

// outcome is how a try has ended, or that it has not.
type outcome struct {
	state, reason, message string
	ended                  time.Time
	// untouched is true if the try has written nothing on the node.
	untouched bool
	// verdict is true if the installer says what it has found on the node.
	verdict bool
	// again is when to look again while it runs; zero for not without an event.
	again time.Time
}

// outcomeOf returns the outcome of the pod of a node. n is nil if there is no such node.
func outcomeOf(p *v1.Pod, n *v1.Node, now time.Time) outcome {
	if n == nil {
		return outcome{state: gone}
	}
	if !terminal(p) {
		return unended(p, n, now)
	}
	c := container(p)
	if c == nil || c.State.Terminated == nil {
		reason := "not-started"
		if p.Status.Reason != "" && len(validation.IsValidLabelValue(p.Status.Reason)) == 0 {
			reason = p.Status.Reason
		}
		// what is not reported to have ended may have begun
		untouched := c == nil || c.State.Running == nil
		return outcome{state: Skipped, reason: reason, message: p.Status.Message, ended: now, untouched: untouched}
	}
	t := c.State.Terminated
	o := ofTermination(*t, Mode(p.Annotations[ModeAnnotation]))
	o.message = text.Record(o.message, maxMessage)
	if o.ended = t.FinishedAt.Time; o.ended.IsZero() {
		o.ended = now
	}
	if o.state == Failed {
		switch {
		case p.Status.Reason == "DeadlineExceeded":
			o.reason = "timeout"
		// The node has failed. That it is cordoned, or its pod evicted, does not undo it.
		//guard: a node that has failed is cordoned, and nobody hears of it
		case o.verdict:
		// A node that leaves the cluster is not one that has failed. It is not tried before it is back,
		// but for a removal, which goes to a cordoned node, too.
		case leaving(n) && Mode(p.Annotations[ModeAnnotation]) != Remove:
			o.state = gone
		// a pod that was evicted is not a node that has failed
		case disrupted(p):
			o.state, o.reason = Skipped, "interrupted"
		}
	}
	return o
}

// unended returns the outcome of a pod that has not ended: one that does not start is taken away. A
// node that is not Ready may have started it, and not said so.
func unended(p *v1.Pod, n *v1.Node, now time.Time) outcome {
	c := container(p)
	if c != nil && (c.State.Running != nil || c.State.Terminated != nil) {
		return outcome{state: running}
	}
	late := p.CreationTimestamp.Add(startWithin)
	if now.Before(late) || p.DeletionTimestamp != nil {
		return outcome{state: running, again: late}
	}
	const reason, message = "not-started", "the container has not started"
	_, untouched := ready(n)
	o := outcome{state: Skipped, reason: reason, message: message, ended: now, untouched: untouched}
	if c != nil && c.State.Waiting != nil {
		o.message = c.State.Waiting.Reason + ": " + c.State.Waiting.Message
		if strings.Contains(c.State.Waiting.Reason, "Image") {
			o.reason = "image"
		}
	}
	for _, condition := range p.Status.Conditions {
		if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse {
			o.reason, o.message = "unschedulable", condition.Message
		}
	}
	o.message = text.Record(o.message, maxMessage)
	return o
}

// ofTermination returns the outcome of a container that has ended. The exit status decides: the
// message is for the reason.
func ofTermination(t v1.ContainerStateTerminated, mode Mode) outcome {
	var m record.Termination
	killed := json.Unmarshal([]byte(t.Message), &m) != nil // the message has the last lines of its log
	if killed {
		m = record.Termination{Message: t.Message}
	}
	if len(validation.IsValidLabelValue(string(m.Reason))) > 0 {
		m.Reason = ""
	}
	o := outcome{reason: string(m.Reason), message: m.Message}
	// one whose time was over, or that was interrupted, says nothing of the node
	o.verdict = m.Reason != "" && m.Reason != record.Timeout && m.Reason != record.Failed
	switch record.Status(t.ExitCode) {
	case record.Done:
		o.state = map[Mode]string{Apply: Kept, Survey: surveyed, Remove: removed}[mode]
		return o
	case record.Refused:
		o.state, o.untouched = Refused, true
	default:
		o.state = Failed
	}
	if o.reason == "" {
		o.reason = "error"
	}
	switch ended := "the container ended with " + t.Reason; {
	case o.message == "":
		o.message = ended
	case killed:
		o.message = ended + ": " + o.message
	}
	return o
}

func container(p *v1.Pod) *v1.ContainerStatus {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Name == ContainerName {
			return &p.Status.ContainerStatuses[i]
		}
	}
	return nil
}

func terminal(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

func disrupted(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue
	})
}
