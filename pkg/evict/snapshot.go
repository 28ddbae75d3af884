package evict

import (
	"time"

	"nodepartition/internal/cgroupfs"
)

// Snapshot is all that Decide decides from: plain data.
type Snapshot struct {
	Now    time.Time
	Config Config
	Memory cgroupfs.MemoryReading
	// OutOfMemory says that the kernel could not keep the partition's limit since the last look
	// (oom of memory.events.local).
	OutOfMemory bool
	// Pods in the partition with their figures. They are asked for only where Pressure says so.
	Pods []Pod
	// State is what earlier decisions left.
	State State
	// API tells whether pods can be evicted through the API server.
	API bool
}

// State is what is kept from one decision to the next.
type State struct {
	// Reclaiming is the threshold that was crossed and is not MinimumReclaim away again, empty for
	// none.
	Reclaiming Threshold
	// SoftSince is when the soft threshold was crossed, zero where it is not.
	SoftSince time.Time
	// Open are the evictions under way.
	Open []execution
	// Cooldown has the owners whose pod was evicted, and until when no other of theirs is.
	Cooldown map[string]time.Time
	// Stays is the memory in bytes, by the UID of its pod, that the end of the pod's processes did
	// not bring back.
	Stays map[string]uint64
	// Doubt is until when nobody else goes, because the last pod that went did not bring back what
	// it used.
	Doubt time.Time
	// Floor is the available memory in bytes below which a pod goes although one that went before
	// has not brought back its memory. It is kept from when the first pod goes until no threshold
	// is crossed: Floored.
	Floor   uint64
	Floored bool
	// UnknownSince is when a pod that nobody knows first kept others from going, zero where none
	// does.
	UnknownSince time.Time
}

// rounding is more than the kernel rounds a limit down by: to whole pages, of 64 KiB on some
// machines.
const rounding = 1 << 17

// limit is what memory is guarded for, in bytes: what the kernel enforces, or the configured limit
// where that is lower and waits for us to be applied. A limit that is higher for another reason was
// raised by an operator, who knows why.
func (s Snapshot) limit() uint64 {
	if s.Config.Lowering {
		return min(s.Config.Limit, s.Memory.Max)
	}
	return s.Memory.Max
}

// unlimited says that there is no limit to guard.
func (s Snapshot) unlimited() bool { return s.limit() == cgroupfs.Unlimited }

// Effective is the configuration for the limit that is in force. While that is below the configured
// one, because a limit that was raised is about to be applied, or an operator has lowered it, the
// thresholds are the same parts of it: those of the larger limit would have pods go for nothing.
func (s Snapshot) Effective() Config {
	c := s.Config
	limit := s.limit()
	if limit >= c.Limit || c.Limit-limit < rounding {
		return c
	}
	part := float64(limit) / float64(c.Limit)
	for _, amount := range []*uint64{&c.Hard, &c.Soft, &c.MinimumReclaim} {
		*amount = uint64(float64(*amount) * part)
	}
	return c
}

// available is what is left below the limit, in bytes.
func (s Snapshot) available() uint64 { return s.Memory.Available(s.limit()) }
