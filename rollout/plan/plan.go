// Package plan decides what a rollout does next: which nodes change, what is written of those that
// have ended, and what the status says. It is pure: it reads objects and a time, and changes
// nothing.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"node-partition.io/node-partition/rollout/api/v1alpha1"
)

// Input is what a decision is made from.
type Input struct {
	// Partition is the NodePartition, and All has all of them.
	Partition *v1alpha1.NodePartition
	All       []*v1alpha1.NodePartition
	// Want is what its nodes are to have; Invalid is why there is none, and Warnings is said of it.
	Want     Want
	Invalid  error
	Warnings []string
	// Nodes has all Nodes, and Pods the pods of nodes of all NodePartitions.
	Nodes []*v1.Node
	Pods  []*v1.Pod
	Now   time.Time
}

// Start is a node that may change next.
type Start struct {
	Node string
	Mode Mode
	// Claim is written before the pod is made; nil if the Node has it.
	Claim *End
	// First is true if nothing has changed the node.
	First bool
}

// End is a node whose try has ended, or of which nothing remains to be known.
type End struct {
	Node *v1.Node
	// Labels has the values of labels, nil for none, and Record the annotation, empty for none.
	Labels map[string]*string
	Record string
	// Pod is deleted after the Node was written; nil for none.
	Pod *v1.Pod
	// State, Reason and Message are for an Event. State is empty if there is nothing to tell.
	State, Reason, Message string
}

// Decision is what happens next.
type Decision struct {
	Status v1alpha1.NodePartitionStatus
	// Starts has nodes that may change now, the first first, and Free how many of them may. Busy has
	// the nodes that change.
	Starts []Start
	Free   int
	Busy   []string
	// Ends has nodes to write, and Deletes pods that are of no use.
	Ends    []End
	Deletes []*v1.Pod
	// Finished is true if no node has anything of a NodePartition that is being deleted.
	Finished bool
	// Again is the time until something changes by itself; zero for never.
	Again time.Duration
}

// surveyAtOnce is the number of nodes that are asked at once by a survey.
const surveyAtOnce = 50

// The back-off of a node: after the first try, and at most.
const (
	failedBackoff, maxFailedBackoff   = 10 * time.Minute, 6 * time.Hour
	skippedBackoff, maxSkippedBackoff = time.Minute, time.Hour
)

// WantRemoved is Record.Want of a node that the partition is taken off.
const WantRemoved = "removed"

// roll is a decision that is being made.
type roll struct {
	Input
	Decision
	key  string
	pods map[string]*v1.Pod // by node
	// all is the number of nodes that maxUnavailable is a share of. done counts the current nodes that
	// are Ready and whose soak is over. left counts the nodes from which the partition is still to be
	// removed.
	all, done, left int
	soaking         []string
	unproven        []string // current nodes whose soak has just ended
	away            []string // current nodes that are not Ready
	held            bool     // the other nodes wait until the first ones, which are away, are Ready
	unready         []string // of those that are to have the partition, and do not change
	fresh, retries  []Start
	skips, failures byReason
	refusals        byReason
	waits           byReason // nodes whose removal waits
	unstarted       int      // of the skipped, those that wait for another try
	seconds, taken  int      // of the nodes that are current
}

// Decide returns what happens next.
func Decide(in Input) Decision {
	r := &roll{
		Input: in, key: in.Want.Key(), pods: map[string]*v1.Pod{},
		skips: byReason{}, failures: byReason{}, refusals: byReason{}, waits: byReason{},
	}
	if _, err := metav1.LabelSelectorAsSelector(&in.Partition.Spec.NodeSelector); err != nil {
		r.Invalid = fmt.Errorf("nodeSelector: %w", err)
	}
	deleting := in.Partition.DeletionTimestamp != nil
	for _, p := range in.Pods {
		r.pods[p.Annotations[NodeAnnotation]] = p
	}
	overlap := r.sort(deleting)
	r.orphans()
	nodes := &r.Status.Nodes
	// A node that is not Ready is unavailable, too, as the DaemonSet controller counts. A removal goes
	// on without nodes that are off.
	//guard: nodes change beside as many that are not ready
	limit := r.share() - len(r.unready)
	switch {
	case deleting:
	case in.Partition.Spec.Rollout.SurveyOnly:
		limit = surveyAtOnce
	case r.done < int(in.Partition.Spec.Rollout.First):
		//guard: the first nodes are found dead before the others change
		r.soaking = append(r.soaking, r.unproven...)
		//guard: a first node that is not ready holds up the others
		limit = min(limit, int(in.Partition.Spec.Rollout.First)-r.done-len(r.away))
		r.held = len(r.away) > 0
	}
	stopped := int(nodes.Failed) > int(in.Partition.Spec.Rollout.MaxFailures)
	accepted := deleting || r.Invalid == nil && overlap == ""
	slices.SortFunc(r.fresh, byName)
	slices.SortFunc(r.retries, byName)
	r.Starts = slices.Concat(r.fresh, r.retries)
	r.Free = max(0, limit-len(r.Busy)-len(r.soaking))
	switch {
	case !accepted || !deleting && in.Partition.Spec.Rollout.Paused:
		r.Free = 0
	case stopped:
		// A node that has failed is tried again, after its back-off. No other node is put at risk.
		r.Starts = r.retries
		r.Free = max(0, min(limit+len(r.unready)-len(r.Busy)-len(r.soaking), 1-len(r.Busy)))
	}
	if r.Free > 0 && len(r.Starts) > 0 { // Pick may take none, and no Node tells of replicas
		r.later(r.Now.Add(time.Minute))
	}
	nodes.Updating = int32(len(r.Busy) + len(r.soaking))
	// a NodePartition that is being deleted waits for the pods of its nodes
	r.Finished = deleting && r.left == 0 && len(r.Busy) == 0 && len(r.Deletes) == 0
	r.Status.ObservedGeneration = in.Partition.Generation
	r.Status.Version, r.Status.SectionHash = in.Want.Version, in.Want.SectionHash
	r.Status.Conditions = r.conditions(overlap, stopped)
	return r.Decision
}

func byName(a, b Start) int { return strings.Compare(a.Node, b.Node) }

// share returns how many nodes change at once.
func (r *roll) share() int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&r.Partition.Spec.Rollout.MaxUnavailable, r.all, false)
	if err != nil { // the API server has refused it
		return 1
	}
	return max(1, n)
}

// selects returns the selector of a NodePartition; one that cannot be read selects nothing.
func selects(p *v1alpha1.NodePartition) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(&p.Spec.NodeSelector)
	if err != nil {
		return labels.Nothing()
	}
	return s
}

// precedes reports whether a NodePartition is older than another one.
func precedes(a, b *v1alpha1.NodePartition) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// sort looks at each node. It returns what an older NodePartition has that this one selects, or
// nothing.
func (r *roll) sort(deleting bool) (overlap string) {
	own := selects(r.Partition)
	// a survey writes nothing, and a selector that cannot be read does not leave a node out
	spec := &r.Partition.Spec
	removes := deleting || spec.Unselected == v1alpha1.Remove && !spec.Rollout.SurveyOnly && r.Invalid == nil
	others, known := map[*v1alpha1.NodePartition]labels.Selector{}, map[string]bool{"": true}
	for _, p := range r.All {
		known[p.Name] = true
		if p.Name != r.Partition.Name {
			others[p] = selects(p)
		}
	}
	for _, n := range r.Nodes {
		set := labels.Set(n.Labels)
		var elsewhere *v1alpha1.NodePartition // the oldest of the others that select the node
		selected := own.Matches(set)
		for p, s := range others {
			if !s.Matches(set) {
				continue
			}
			if p.DeletionTimestamp != nil {
				continue // its pods keep their nodes until it is gone
			}
			if elsewhere == nil || precedes(p, elsewhere) {
				elsewhere = p
			}
			if selected && precedes(p, r.Partition) {
				overlap = min(cmp.Or(overlap, "\xff"), "node "+n.Name+" is selected by "+p.Name+", too, which is older")
			}
		}
		before := recordOf(n)
		// what a NodePartition that is gone has left is of one that selects the node
		if selected && !known[before.Partition] {
			before.Partition = r.Partition.Name
		}
		m := r.ended(n, before)
		// also a node whose first try has just ended
		has := r.Partition.Name == before.Partition || r.Partition.Name == m.record.Partition
		// maxUnavailable is a share of the nodes that change, and a node that is kept does not
		if selected || has && removes {
			r.all++
		}
		switch {
		case selected && !deleting:
			r.Status.Nodes.Selected++
			r.apply(m)
		case has && removes && elsewhere == nil:
			r.Status.Nodes.Selected++
			r.remove(m)
		case has && removes:
			r.hand(m, elsewhere.Name)
		}
	}
	return overlap
}

// hand gives a node to another NodePartition that selects it, which may not try it soon.
func (r *roll) hand(m member, to string) {
	if m.busy || m.blocked {
		r.left++
		return
	}
	if m.record.Partition != "" {
		m.record.Partition = to
		r.Ends = append(r.Ends, End{Node: m.Node, Labels: map[string]*string{}, Record: m.record.String()})
	}
}

// orphans removes the pods of nodes that are gone.
func (r *roll) orphans() {
	nodes := map[string]bool{}
	for _, n := range r.Nodes {
		nodes[n.Name] = true
	}
	for node, p := range r.pods {
		// a node that has left the cluster is not one that has failed
		if p.Annotations[PartitionAnnotation] == r.Partition.Name && !nodes[node] {
			r.drop(p)
		}
	}
}

// drop has a pod deleted that says nothing.
func (r *roll) drop(p *v1.Pod) {
	// the events of a pod ask for a decision about its own NodePartition
	if p.Annotations[PartitionAnnotation] != r.Partition.Name {
		r.later(r.Now.Add(time.Second))
	}
	if p.DeletionTimestamp == nil {
		r.Deletes = append(r.Deletes, p)
	}
}

// later notes a time at which something changes by itself.
func (r *roll) later(at time.Time) {
	if d := max(at.Sub(r.Now), time.Second); r.Again == 0 || d < r.Again {
		r.Again = d
	}
}
