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

	"nodepartition/internal/hostfs"
	"nodepartition/internal/membership"
	"nodepartition/internal/statefile"
	"nodepartition/internal/thresholds"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/slices/config"
)

// FileName is the name of the file beside the units. systemd ignores hidden files.
const FileName = ".decision.json"

// maxBytes bounds the file: a thousand namespaces of the longest name take 66 KB.
const maxBytes = 1 << 20

// version is the version of the file. A reader takes earlier ones, and refuses later ones.
const version = 1

// Decision is the content of the file. It is plain data: equal input of the generator gives an
// equal decision.
type Decision struct {
	Version int `json:"version"`
	// Identity is Config.Identity of the configuration that was applied. It is empty if that was not
	// valid, which no configuration equals.
	Identity string `json:"identity"`
	// Section is Config.SectionDigest of that configuration. It is empty without a section, and in a
	// file of an earlier version.
	Section string `json:"section,omitempty"`
	// Partitions lists the partitions that were made, in the order of the configuration.
	Partitions []Partition `json:"partitions,omitempty"`
	// Workloads lists the workload types, by name.
	Workloads []membership.Workload `json:"workloads,omitempty"`
}

// Partition holds what the monitor follows of a partition.
type Partition struct {
	Name       unitname.PartitionName `json:"name"`
	Namespaces []string               `json:"namespaces"`
	// Eviction is nil in a file that an earlier version of the monitor has written.
	Eviction *thresholds.Thresholds `json:"eviction,omitempty"`
	// Floor is the protected memory of the partition.
	Floor Floor `json:"floor,omitzero"`
	// Deferral is nil if the units have the configured limit.
	Deferral *Deferral `json:"deferral,omitempty"`
}

// Equal reports whether the same is to be followed. Thresholds that an earlier version has not
// stored equal any. Which limit is in force meanwhile makes no difference.
func (p Partition) Equal(other Partition) bool {
	same := p.Eviction == nil || other.Eviction != nil && *p.Eviction == *other.Eviction
	//guard: a floor that is another is another configuration
	return same && p.Name == other.Name && p.Floor == other.Floor && slices.Equal(p.Namespaces, other.Namespaces)
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
// deferrals holds the limits that wait, by the name of the partition.
func New(c *config.Config, deferrals map[unitname.PartitionName]*Deferral) Decision {
	d := Decision{
		Version: version, Identity: c.Identity(), Section: c.SectionDigest(),
		Partitions: PartitionsOf(c), Workloads: c.Workloads,
	}
	for i := range d.Partitions {
		d.Partitions[i].Deferral = deferrals[d.Partitions[i].Name]
	}
	return d
}

// PartitionsOf returns what is to be followed of a valid configuration, without deferrals.
func PartitionsOf(c *config.Config) []Partition {
	if len(c.Partitions) == 0 {
		return nil
	}
	list := make([]Partition, 0, len(c.Partitions))
	for i := range c.Partitions {
		p := &c.Partitions[i]
		list = append(list, Partition{
			Name: p.Name, Namespaces: p.Namespaces, Eviction: ThresholdsOf(p), Floor: Floor{p.Floor.Min, p.Floor.Low},
		})
	}
	return list
}

// ThresholdsOf returns the thresholds of a partition.
func ThresholdsOf(p *config.Partition) *thresholds.Thresholds {
	limit := p.MemoryLimit
	t := thresholds.Thresholds{Limit: uint64(limit), MaxPodGrace: -1, MinimumReclaim: uint64(p.MinimumReclaim)}
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

// Text returns the content of the file. It has the system partition a second time, as it was before
// there were versions: a monitor of that time runs until it is restarted, and would take a file
// without members for the end of the partition, and move its pods out.
func (d Decision) Text() (string, error) {
	d.Version = version
	var old unversioned
	for i := range d.Partitions {
		if p := d.Partitions[i]; p.Name == unitname.First {
			old.Deferral, p.Deferral = p.Deferral, nil
			old.Members = &p
		}
	}
	text, err := json.Marshal(struct {
		Decision
		unversioned
	}{d, old})
	return string(text) + "\n", err
}

// ErrNone means that units are in place, and no decision: an earlier version of the generator has
// written them.
var ErrNone = errors.New("an earlier version of partition-generator wrote the units in place")

// The directories of the generator's output (slices.Output), below the root. The file is in the
// generator's own directory only if units had to be written there.
const (
	generatorDir = "/run/systemd/generator"
	unitsDir     = config.StateDir + "/units"
	oldDir       = config.StateDir + "/units.old"
)

// unversioned is the file of the versions before Version: it is of the system partition alone.
type unversioned struct {
	Members  *Partition `json:"members,omitempty"`
	Deferral *Deferral  `json:"deferral,omitempty"`
}

// parse parses the file of this version and of those before.
func parse(data []byte) (*Decision, error) {
	d := &Decision{}
	err := statefile.Decode(data, version, d)
	if errors.Is(err, statefile.ErrLater) {
		return nil, fmt.Errorf("%w: restart partition-monitor", err)
	}
	if err != nil {
		return nil, err
	}
	if d.Version == version {
		return d, nil
	}
	var old unversioned
	if err := json.Unmarshal(data, &old); err != nil {
		return nil, err
	}
	d.Version = version
	if old.Members != nil {
		old.Members.Name, old.Members.Deferral = unitname.First, old.Deferral
		d.Partitions = []Partition{*old.Members}
	}
	return d, nil
}

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
		var d *Decision
		if err == nil {
			d, err = parse(data)
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
