package podmove

import (
	"time"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/partition"
)

// Placer places containers at their creation, when the runtime asks. *nri.Plugin implements it.
type Placer interface {
	// SetRules changes which pods belong to which partition.
	SetRules(r partition.Rules)
	// Connections counts how often the runtime has connected. In between it may have been restarted,
	// or have got another configuration or another plugin.
	Connections() int
	// IsAnnounced reports whether a sandbox of a pod has begun that the runtime had not listed yet.
	// The UID may be escaped, as in the name of a slice.
	IsAnnounced(uid string) bool
	// Answers returns the answers for the containers for which done returns true, and forgets them.
	Answers(done func(id string) bool) map[string]Answer
}

// Answer is an answer to the runtime for a container.
type Answer struct {
	// Took is the time from the question to the answer. At is the time of the question.
	Took time.Duration
	At   time.Time
	// To is the partition that the pod belongs to.
	To partition.Name
	// Err is the reason why a member was not placed.
	Err error
}

// Announced lists pods that the runtime has announced over NRI. The runtime's list of sandboxes has
// a pod only when its sandbox runs.
type Announced interface {
	// Announced returns the sandboxes that are not listed, and forgets the others.
	Announced(listed func(id string) bool) []cri.Sandbox
}
