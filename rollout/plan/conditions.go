package plan

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"node-partition.io/node-partition/rollout/api/v1alpha1"
)

// conditions returns the conditions, without times of transition.
func (r *roll) conditions(overlap string, stopped bool) []metav1.Condition {
	accepted := r.condition(v1alpha1.Accepted, true, "Valid", strings.Join(r.Warnings, "; "))
	switch {
	case r.Invalid != nil:
		accepted = r.condition(v1alpha1.Accepted, false, "Invalid", r.Invalid.Error())
	case overlap != "":
		accepted = r.condition(v1alpha1.Accepted, false, "Overlap", overlap+": change a selector, or a label of the node")
	}
	n := r.Status.Nodes
	available := r.condition(v1alpha1.Available, true, "Current", r.counts())
	switch {
	case r.Partition.DeletionTimestamp != nil:
		available = r.condition(v1alpha1.Available, false, "Removing", r.counts())
	case accepted.Status != metav1.ConditionTrue:
		available = r.condition(v1alpha1.Available, false, "NotAccepted", r.counts())
	case r.missing() > 0 || n.Updating > 0:
		available = r.condition(v1alpha1.Available, false, "NotCurrent", r.counts())
	}
	degraded := r.condition(v1alpha1.Degraded, false, "AsExpected", "")
	switch {
	case n.Failed > 0:
		reason := "NodesFailed"
		if stopped {
			reason = "Stopped"
		}
		degraded = r.condition(v1alpha1.Degraded, true, reason, "failed: "+r.failures.String())
	case r.held && r.missing() > 0:
		degraded = r.condition(v1alpha1.Degraded, true, "FirstNotReady",
			"the other nodes wait for the first ones to be ready: mend, cordon or delete "+strings.Join(r.away, ", "))
	case len(r.refusals) > 0 && !r.Partition.Spec.Rollout.SurveyOnly && r.Partition.DeletionTimestamp == nil:
		degraded = r.condition(v1alpha1.Degraded, true, "NodesRefused", r.refused())
	}
	progressing := r.progressing(accepted.Status == metav1.ConditionTrue, stopped)
	return []metav1.Condition{accepted, progressing, available, degraded}
}

func (r *roll) condition(of string, is bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{
		Type: of, Status: status, Reason: reason, Message: Message(message), ObservedGeneration: r.Partition.Generation,
	}
}

// maxCondition bounds the message of a condition, in bytes. With more than 32,768 characters the
// API server refuses the status as a whole.
const maxCondition = 4096

// Message returns the message of a condition, cut to its bound.
func Message(s string) string {
	//guard: a message is longer than the API server takes
	if len(s) <= maxCondition {
		return s
	}
	return strings.ToValidUTF8(s[:maxCondition], "") + "..."
}

// progressing returns whether nodes change, and if not, why.
func (r *roll) progressing(accepted bool, stopped bool) metav1.Condition {
	of := func(is bool, reason, message string) metav1.Condition {
		return r.condition(v1alpha1.Progressing, is, reason, message)
	}
	rollout := r.Partition.Spec.Rollout
	left := len(r.Starts) + len(r.Busy)
	// a node that is lost while it changes does not go on
	working := len(r.Busy) > len(r.failures["lost"])
	moving := working || len(r.soaking) > 0 || r.Free > 0 && len(r.Starts) > 0
	deleting := r.Partition.DeletionTimestamp != nil
	switch {
	case stopped && !working && (deleting || accepted && !rollout.SurveyOnly && !rollout.Paused):
		message := fmt.Sprintf("%d nodes failed, and maxFailures is %d: %s; mend them and remove their label %s, or raise maxFailures",
			r.Status.Nodes.Failed, rollout.MaxFailures, r.failures, StateLabel)
		if !deleting {
			message += ", or apply another section"
		}
		return of(false, "Stopped", message)
	case deleting && len(r.waits) > 0 && !moving:
		return of(false, "Waiting", "the partition is on nodes that cannot be reached now: "+r.waits.String())
	case deleting:
		return of(true, "Removing", fmt.Sprintf("%d nodes have the partition", r.left)+r.atWork())
	case !accepted:
		return of(false, "NotAccepted", "")
	case rollout.SurveyOnly && moving:
		return of(true, "Surveying", r.refused())
	case rollout.SurveyOnly:
		return of(false, "Surveyed", r.refused())
	case rollout.Paused:
		return of(false, "Paused", r.counts()+r.atWork())
	case moving:
		return of(true, "Rolling", r.counts()+r.atWork()+r.estimate(left))
	case r.missing() > 0:
		return of(false, "Waiting", r.counts()+r.atWork())
	}
	return of(false, "Complete", r.counts())
}

// missing returns how many nodes are to become current. A node that cannot be changed is none of
// them. One whose pod did not start is: nothing is known of the node.
func (r *roll) missing() int {
	n := r.Status.Nodes
	return int(n.Selected-n.Current-n.Skipped) + r.unstarted
}

// counts says how many nodes are current, and why others are not.
func (r *roll) counts() string {
	parts := []string{fmt.Sprintf("%d of %d nodes are current", r.Status.Nodes.Current, r.Status.Nodes.Selected)}
	if len(r.skips) > 0 {
		parts = append(parts, "skipped: "+r.skips.String())
	}
	if len(r.refusals) > 0 {
		parts = append(parts, r.refused())
	}
	if len(r.waits) > 0 {
		parts = append(parts, "to be removed: "+r.waits.String())
	}
	return strings.Join(parts, "; ")
}

func (r *roll) refused() string {
	if len(r.refusals) == 0 {
		return "no node has refused"
	}
	return "refused: " + r.refusals.String()
}

// atWork names the nodes that have a place of the rollout now.
func (r *roll) atWork() string {
	now := byReason{}
	if len(r.Busy) > 0 {
		now["changing"] = r.Busy
	}
	if len(r.soaking) > 0 {
		now["in its soak"] = r.soaking
	}
	if len(r.unready) > 0 {
		now["not ready"] = r.unready
	}
	if len(now) == 0 {
		return ""
	}
	return "; now " + now.String()
}

// untried is how long a node takes, as long as none has been changed.
const untried = 2 * time.Minute

// estimate says how long the rest takes if each node takes as long as those before it.
func (r *roll) estimate(left int) string {
	if left == 0 {
		return ""
	}
	each := untried
	if r.taken > 0 {
		each = time.Duration(r.seconds/r.taken) * time.Second
	}
	share := r.share()
	first := max(0, min(left, int(r.Partition.Spec.Rollout.First)-r.done-len(r.soaking)))
	rounds := (first+share-1)/share + (left-first+share-1)/share
	took := time.Duration(rounds) * (each + r.Partition.Spec.Rollout.Soak.Duration)
	return fmt.Sprintf("; about %s left", duration.HumanDuration(took))
}
