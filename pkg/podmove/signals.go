package podmove

import (
	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/partition"
)

// Signals holds what other parts ask of a Reconciler. It is made first, so that those parts exist
// before the Reconciler, which needs them.
type Signals struct {
	wake, urge chan struct{}
	announced  chan Announcement
}

// Announcement is a pod whose sandbox has begun, and its place, which was decided then.
type Announcement struct {
	cri.Sandbox
	// QoS is empty if the cgroup that the kubelet asks for does not tell it.
	QoS   v1.PodQOSClass
	Place partition.Place
}

// maxAnnounced bounds the announcements that wait.
const maxAnnounced = 512

// NewSignals returns signals for one Reconciler.
func NewSignals() *Signals {
	return &Signals{
		wake: make(chan struct{}, 1), urge: make(chan struct{}, 1), announced: make(chan Announcement, maxAnnounced),
	}
}

// Wake requests a reconcile soon. It returns at once.
func (s *Signals) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Urge requests a reconcile now: eviction needs the pods before memory runs out, or an operator has
// ordered a move. It returns at once.
func (s *Signals) Urge() {
	select {
	case s.urge <- struct{}{}:
	default:
	}
}

// Announce requests the slice of a member whose sandbox has begun, before its first container. It
// returns at once.
func (s *Signals) Announce(a Announcement) {
	select {
	case s.announced <- a:
	default:
		s.Wake() // a reconcile makes all of them
	}
}
