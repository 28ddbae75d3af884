// Package fleet decides which node of a cluster is given its system partition next. It is plain
// data in and one step out: it reads no clock, no file and no API server. internal/fleet/dispatch
// carries the steps out.
//
// # Nodes that cannot be taken
//
// In thousands of nodes some are always off. A roll that waited for them, or that counted them as
// failures, would never end: the reports in which a few dead nodes block an update of all are many
// (kubernetes/test-infra#31706, NVIDIA/NVSentinel#1764). So a node that is not Ready or that is
// cordoned gets no Job. It is named at the end, and does not count as a failure. It has its turn if
// it becomes fit while the roll goes on. A removal has to leave nothing behind. There a node that
// is not Ready was not reached, and a cordoned one is taken like any other. A node that has left
// the cluster is out of reach for good, and counts in neither.
//
// A node that was Ready when its Job was made, and whose Job fails, has failed: the trial there may
// be the cause. So has one that goes NotReady in its trial and then leaves the cluster, as node
// repair makes it, and one that does not stay Ready with what it has kept.
package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"nodepartition/internal/nodelabel"
)

// Labels and annotations of nodes, Jobs, pods and the Lease. A node that has kept the partition has
// the labels of internal/nodelabel, too. Annotations of the same names have the version and the
// section that a Job installs.
const (
	prefix = nodelabel.Prefix
	// StateLabel of a node has how its last Job has ended, as a State.
	StateLabel = prefix + "state"
	// ReasonLabel of a node has one word about a state other than StateKept.
	ReasonLabel = prefix + "reason"
	// RollLabel of Jobs and their pods has the ID of the roll.
	RollLabel = prefix + "roll"
	// NodeLabel of Jobs and their pods has the name of the node, or a hash of a name that is too long
	// for a label.
	NodeLabel = prefix + "node"
	// ActionLabel of Jobs and their pods has the Action.
	ActionLabel = prefix + "action"
	// NodeNameAnnotation of Jobs has the name of the node in full.
	NodeNameAnnotation = prefix + "node-name"
	// nodeUIDAnnotation of Jobs has the UID of the Node. A machine that joins again under a name that
	// another one had is another node.
	nodeUIDAnnotation = prefix + "node-uid"
)

// Action says what the Jobs of a roll do.
type Action string

// The actions. The commands roll, uninstall and add are for one each.
const (
	// Install gives each node of the selection this version and section, whatever it has.
	Install Action = "install"
	// Uninstall removes what an installation has left on any node.
	Uninstall Action = "uninstall"
	// Add is Install for nodes that no roll has seen.
	Add Action = "add"
)

// State says how a node's last Job has ended.
type State string

// The states. A node without one has had no Job, or one that has removed everything.
const (
	StateKept State = "kept"
	// StateFailed means that something was written. The reason and the Job say what is on the node
	// now.
	StateFailed State = "failed"
	// StateRefused means that nothing was written.
	StateRefused State = "refused"
)

// hash returns the first hex digits of the SHA-256 of texts, which may not contain a line break.
func hash(digits int, texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:])[:digits]
}

// SectionHash returns the value of nodelabel.Section for a file of a section, from the SHA-256 of
// its bytes.
func SectionHash(file []byte) string {
	return nodelabel.SectionValue(hash(2*sha256.Size, string(file)))
}

// RollID returns the name of a roll: 10 hex digits that follow from version, section, action, the
// release as "namespace/name", and its revision. A dispatcher that is started again finds its Jobs
// by it.
func RollID(version, section string, action Action, release string, revision int) string {
	return hash(10, version, section, string(action), release, strconv.Itoa(revision))
}

// jobName returns the name of the Job of a node in a roll, which is at most 63 bytes long: the name
// of a Job is a label of its pods.
func jobName(roll string, n *Node) string {
	return fmt.Sprintf("node-partition-%s-%s", roll, hash(16, n.Name, n.UID))
}

// nodeValue returns the value of NodeLabel.
func nodeValue(name string) string {
	if len(validation.IsValidLabelValue(name)) == 0 {
		return name
	}
	return hash(16, name)
}
