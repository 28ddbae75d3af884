package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/partition"
)

// The labels of a Node beside those of internal/partition.
const (
	StateLabel  = partition.LabelPrefix + "state"
	ReasonLabel = partition.LabelPrefix + "reason"
)

// The values of StateLabel.
const (
	// Kept is a node that has the partition: partition.VersionLabel and partition.SectionLabel say
	// which.
	Kept = "kept"
	// Failed is a node whose last try has failed.
	Failed = "failed"
	// Refused is a node that has refused before anything was written.
	Refused = "refused"
	// Skipped is a node on which the pod of the last try never ran, or was taken away.
	Skipped = "skipped"
)

// RecordAnnotation is the annotation of a Node with its last try, as a Record.
const RecordAnnotation = partition.LabelPrefix + "rollout"

// The annotations of the pod of a node.
const (
	PartitionAnnotation = partition.LabelPrefix + "partition"
	NodeAnnotation      = partition.LabelPrefix + "node"
	ModeAnnotation      = partition.LabelPrefix + "mode"
	WantAnnotation      = partition.LabelPrefix + "want"
	VersionAnnotation   = partition.LabelPrefix + "version"
	HashAnnotation      = partition.LabelPrefix + "section-sha256"
	// FirstAnnotation is "true" if nothing had changed the node before.
	FirstAnnotation = partition.LabelPrefix + "first"
)

// Mode is what the pod of a node does.
type Mode string

// The modes.
const (
	Apply  Mode = "apply"
	Survey Mode = "survey"
	Remove Mode = "remove"
)

// Record is what the controller remembers of a node: who has it, and its last try.
type Record struct {
	// Partition is the NodePartition that has the node.
	Partition string `json:"partition"`
	// Want is what was tried: see Want.Key.
	Want string `json:"want,omitempty"`
	// Changed is true if a try may have changed the node. It is written before the pod is made, whose
	// end nobody may see.
	Changed bool `json:"changed,omitempty"`
	// Machine is the node's machine-id. A Node stays when its machine is made again.
	Machine string `json:"machine,omitempty"`
	// Pod is the UID of the pod of the last try. Its end is recorded once.
	Pod types.UID `json:"pod,omitempty"`
	// At is when the end of the try was seen, by the clock of the controller: that of a node may be
	// wrong. Seconds is how long the try took.
	At      metav1.Time `json:"at,omitzero"`
	Seconds int         `json:"seconds,omitempty"`
	// Tries counts the tries of Want in a row that did not end well.
	Tries int `json:"tries,omitempty"`
	// Unchanged is true if the node had all before the try. There is no soak then.
	Unchanged bool `json:"unchanged,omitempty"`
	// Surveyed is what the node could have, by the last survey.
	Surveyed string `json:"surveyed,omitempty"`
	// Message is what the try has said.
	Message string `json:"message,omitempty"`
}

// recordOf returns the record of a Node. One that cannot be read counts as none. What another
// machine was tried with does not count.
func recordOf(n *v1.Node) Record {
	var r Record
	if json.Unmarshal([]byte(n.Annotations[RecordAnnotation]), &r) != nil {
		return Record{}
	}
	if r.Machine != n.Status.NodeInfo.MachineID {
		return Record{Partition: r.Partition, Changed: r.Changed, Pod: r.Pod}
	}
	return r
}

// ofOther returns what counts of the record of another NodePartition: what that has left on the
// node is still to be taken off.
func (r Record) ofOther() Record { return Record{Changed: r.Changed} }

// String returns the record as the annotation has it.
func (r Record) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // of strings and numbers
	}
	return string(text)
}

// Want is what the nodes of a NodePartition are to have.
type Want struct {
	Version, SectionHash string
	MonitorArgs          []string
}

// keyDigits is the number of digits of Want.Key.
const keyDigits = 12

// Key identifies what is wanted.
func (w Want) Key() string {
	digest := sha256.Sum256([]byte(w.Version + "\n" + w.SectionHash + "\n" + strings.Join(w.MonitorArgs, "\n")))
	return hex.EncodeToString(digest[:])[:keyDigits]
}

// has reports whether a Node has what is wanted, as far as its labels say.
func (w Want) has(n *v1.Node) bool {
	return n.Labels[StateLabel] == Kept && n.Labels[partition.VersionLabel] == partition.VersionValue(w.Version) &&
		n.Labels[partition.SectionLabel] == partition.SectionValue(w.SectionHash)
}
