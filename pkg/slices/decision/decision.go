// Package decision holds what the generator has decided, as a file beside the units.
//
// The units do not contain everything that the monitor follows: the namespaces, the thresholds of
// eviction, a limit that waits. The generator writes these when it writes the units, and the rename
// that makes the units valid makes the decision valid too. The monitor only reads it. So no clock,
// and no second evaluation of what may have changed since, decides whether a configuration was
// applied: it was if its identity is the decision's.
package decision

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"nodepartition/internal/hostfs"
	"nodepartition/pkg/slices/config"
)

// FileName is the name of the file beside the units. systemd ignores hidden files.
const FileName = ".decision.json"

// maxBytes bounds the file: a thousand namespaces of the longest name take 66 KB.
const maxBytes = 1 << 20

// Decision is the content of the file. It is plain data: equal input of the generator gives an
// equal decision.
type Decision struct {
	// Identity is Config.Identity of the configuration that was applied. It is empty if that was not
	// valid, which no configuration equals.
	Identity string `json:"identity"`
	// Members is nil if no partition was made.
	Members *Members `json:"members,omitempty"`
	// Deferral is nil if the units have the configured limit.
	Deferral *Deferral `json:"deferral,omitempty"`
}

// Members holds what the monitor follows of a partition.
type Members struct {
	Namespaces []string `json:"namespaces"`
	// Eviction is nil in a file that an earlier version of the monitor has written.
	Eviction *Thresholds `json:"eviction,omitempty"`
	// Floor is the protected memory of the partition.
	Floor Floor `json:"floor,omitzero"`
}

// Equal reports whether the members are equal. Those of an earlier version equal any thresholds.
func (m Members) Equal(other Members) bool {
	same := m.Eviction == nil || other.Eviction != nil && *m.Eviction == *other.Eviction
	return same && m.Floor == other.Floor && slices.Equal(m.Namespaces, other.Namespaces)
}

// Thresholds holds the settings of eviction, in bytes and nanoseconds. A negative MaxPodGrace means
// the pod's own grace period.
type Thresholds struct {
	Limit          uint64        `json:"limit"`
	Hard           uint64        `json:"hard"`
	Soft           uint64        `json:"soft"`
	SoftGrace      time.Duration `json:"softGrace"`
	MaxPodGrace    time.Duration `json:"maxPodGrace"`
	MinimumReclaim uint64        `json:"minimumReclaim"`
}

// Floor is protected memory in bytes: memory.min and memory.low.
type Floor struct {
	Min uint64 `json:"min"`
	Low uint64 `json:"low"`
}

// Deferral is a configured limit that waits for evictions.
type Deferral struct {
	// Limit is the configured limit, in bytes.
	Limit uint64 `json:"limit"`
	// InForce is the limit that the units have meanwhile, in bytes; cgroupfs.Unlimited for none.
	InForce uint64 `json:"inForce"`
	// Warning is for the operator.
	Warning string `json:"warning"`
}

// New returns the decision for a configuration that config.Load has returned without an error.
func New(c *config.Config, deferral *Deferral) Decision {
	return Decision{Identity: c.Identity(), Members: MembersOf(c), Deferral: deferral}
}

// MembersOf returns the members of a valid configuration, nil without a partition.
func MembersOf(c *config.Config) *Members {
	if c.Partition == nil {
		return nil
	}
	floor := c.Settings.Floor
	return &Members{
		Namespaces: c.Partition.Namespaces, Eviction: ThresholdsOf(c.Partition), Floor: Floor{floor.Min, floor.Low},
	}
}

// ThresholdsOf returns the thresholds of a partition.
func ThresholdsOf(p *config.Partition) *Thresholds {
	limit := p.MemoryLimit
	t := Thresholds{Limit: uint64(limit), MaxPodGrace: -1, MinimumReclaim: uint64(p.MinimumReclaim)}
	if p.MaxPodGracePeriod != nil {
		t.MaxPodGrace = *p.MaxPodGracePeriod
	}
	if hard, ok := p.Eviction.Of(limit); ok {
		t.Hard = uint64(hard)
	}
	if p.EvictionSoft != nil {
		if soft, ok := p.EvictionSoft.Of(limit); ok {
			t.Soft, t.SoftGrace = uint64(soft), p.EvictionSoft.GracePeriod
		}
	}
	return &t
}

// Text returns the content of the file.
func (d Decision) Text() (string, error) {
	text, err := json.Marshal(d)
	return string(text) + "\n", err
}

// ErrNone means that units are in place, and no decision: an earlier version of the generator has
// written them.
var ErrNone = errors.New("the units in place are those of an earlier version of partition-generator")

// The directories of the generator's output (slices.Output), below the root. The file is in the
// generator's own directory only if units had to be written there.
const (
	generatorDir = "/run/systemd/generator"
	unitsDir     = config.StateDir + "/units"
	oldDir       = config.StateDir + "/units.old"
)

// Read returns the decision that is in force on the node at root. It returns nil without an error
// if there is no output of the generator, and ErrNone for units without a decision.
//
// A run of the generator sets the units aside for a moment, hence the second look.
func Read(root string) (*Decision, error) {
	node := hostfs.FS(root)
	for _, dir := range []string{generatorDir, unitsDir, oldDir, unitsDir} {
		path := dir + "/" + FileName
		data, err := node.ReadFile(path, maxBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		d := &Decision{}
		if err == nil {
			err = json.Unmarshal(data, d)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w; systemctl daemon-reload writes it again", path, err)
		}
		return d, nil
	}
	if node.Exists(unitsDir) {
		return nil, ErrNone
	}
	return nil, nil
}
