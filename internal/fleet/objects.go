package fleet

import (
	v1 "k8s.io/api/core/v1"

	"nodepartition/internal/nodelabel"
)

// Node holds the facts about a node of the cluster that count in a roll.
type Node struct {
	Name string
	// UID differs from the UID of a node of the same name that was deleted before.
	UID    string
	Labels map[string]string
	// Ready is false for a node that its kubelet or the node controller reports as not ready, and
	// NotReady has the reason then.
	Ready    bool
	NotReady string
	// Cordoned means that somebody has excluded the node from scheduling.
	Cordoned bool
	// Leaving means that the Node is being deleted.
	Leaving bool
}

// ours reports whether a roll has left a label on the node.
func (n *Node) ours() bool {
	for _, label := range []string{nodelabel.Version, nodelabel.Section, StateLabel, ReasonLabel} {
		if _, has := n.Labels[label]; has {
			return true
		}
	}
	return false
}

// controlPlane reports whether the node is of the control plane (kubeadm's labels, the present and
// the former).
func (n *Node) controlPlane() bool {
	_, is := n.Labels["node-role.kubernetes.io/control-plane"]
	_, was := n.Labels["node-role.kubernetes.io/master"]
	return is || was
}

func (n *Node) linux() bool {
	os, has := n.Labels[v1.LabelOSStable]
	return !has || os == "linux"
}

// Job holds the facts about a Job that any roll has made for a node.
type Job struct {
	Name string
	// UID differs from the UID of a Job of the same name that was deleted before.
	UID string
	// Roll, Action, Node, NodeUID, Version and Section say what it was made for.
	Roll                            string
	Action                          Action
	Node, NodeUID, Version, Section string
	// Owner is the UID of the ConfigMap that it is collected with.
	Owner string
	// Leaving means that it is being deleted.
	Leaving bool
	// Complete and Failed are false while it runs.
	Complete, Failed bool
	// Reason and Message belong to the condition Failed.
	Reason, Message string
}

// NewJob returns a Job with what its labels and annotations say.
func NewJob(name, uid string, labels, annotations map[string]string) *Job {
	return &Job{
		Name: name, UID: uid, Roll: labels[RollLabel], Action: Action(labels[ActionLabel]),
		Node: annotations[NodeNameAnnotation], NodeUID: annotations[nodeUIDAnnotation],
		Version: annotations[nodelabel.Version], Section: annotations[nodelabel.Section],
	}
}

// PodSelector selects the pod of the Job by its labels.
func (j *Job) PodSelector() string {
	return RollLabel + "=" + j.Roll + "," + NodeLabel + "=" + nodeValue(j.Node)
}

func (j *Job) ended() bool { return j.Complete || j.Failed }

// Pod holds the facts about the pod of a Job.
type Pod struct {
	// JobUID is the UID of its Job.
	JobUID string
	// Container is the first container that has failed, empty while none has.
	Container string
	// ExitCode, Reason and Message say how it ended. It wrote the message to its termination log.
	ExitCode int32
	Reason   string
	Message  string
	// Waits says what the pod waits for, such as a node or an image, or why it was ended from outside.
	// It is empty for a pod that runs.
	Waits string
}

// Change is a change of an object, or its end.
type Change struct {
	// One of them is set.
	Node *Node
	Job  *Job
	Pod  *Pod
	// Gone means that the object no longer exists.
	Gone bool
}
