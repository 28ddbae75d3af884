// Package decision holds what the generator has decided, as a file beside the units.
//
// The units do not contain everything that the monitor follows: the namespaces, the thresholds of
// eviction, a limit that waits. The generator writes these when it writes the units, and the rename
// that makes the units valid makes the decision valid too. The monitor follows it, and does not
// evaluate the configuration itself. So no clock, and no file that may have changed since, decides
// what is followed.
package decision

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/slices/config"
)

// FileName is the name of the file beside the units. systemd ignores hidden files.
const FileName = ".decision.json"

// maxBytes bounds the file: a thousand namespaces of the longest name take 66 KB.
const maxBytes = 1 << 20

// version is the version of the file. A reader takes no other.
const version = 1

// Decision is the content of the file. It is plain data: equal input of the generator gives an
// equal decision.
type Decision struct {
	Version int `json:"version"`
	// Identity is Config.Identity of the configuration that was applied. It is empty if none was:
	// nothing is decided then.
	Identity string `json:"identity"`
	// Section is Config.SectionDigest of that configuration. It is empty without a section.
	Section string `json:"section,omitempty"`
	// Trial means that a trial is in force.
	Trial bool `json:"trial,omitempty"`
	// KubeletsFile means that Config.KubeletsFile has a message.
	KubeletsFile bool `json:"kubeletsFile,omitempty"`
	// ManagedByKubelet is Config.ManagedByKubelet: the system partition is not ours.
	ManagedByKubelet string `json:"managedByKubelet,omitempty"`
	// Partitions lists the partitions that were made, in the order of the configuration, and after
	// them those that are off.
	Partitions []Partition `json:"partitions,omitempty"`
	// Workloads lists the workload types, by name.
	Workloads []partition.Workload `json:"workloads,omitempty"`
}

// Partition holds what the monitor follows of a partition.
type Partition struct {
	Name partition.Name `json:"name"`
	// Off means that the partition is there, and is not to be made any more. Nothing else is known of
	// it.
	Off        bool     `json:"off,omitempty"`
	Namespaces []string `json:"namespaces"`
	// CPUs is the list of its CPUs, empty for all. With Exclusive no other pod runs on them.
	CPUs      string `json:"cpuset,omitempty"`
	Exclusive bool   `json:"exclusive,omitempty"`
	// Eviction has the thresholds of eviction, nil for a partition that is off.
	Eviction *thresholds.Thresholds `json:"eviction,omitempty"`
	// Protection is the protected memory of the partition.
	Protection cgroups.Protection `json:"floor,omitzero"`
	// Deferral is nil if the units have the configured limit.
	Deferral *Deferral `json:"deferral,omitempty"`
}

// Deferral is a configured limit that waits for evictions.
type Deferral struct {
	// Limit is the configured limit, in bytes.
	Limit uint64 `json:"limit"`
	// InForce is the limit that the units have meanwhile, in bytes; cgroups.Unlimited for none.
	InForce uint64 `json:"inForce"`
	// Warning is for the operator.
	Warning string `json:"warning"`
}

// New returns the decision for a configuration that config.Load has returned without an error.
// deferrals holds the limits that wait, by the name of the partition. off lists the partitions that
// are there, and that the configuration does not make.
func New(c *config.Config, deferrals map[partition.Name]*Deferral, off []partition.Name) Decision {
	d := Decision{
		Version: version, Identity: c.Identity(), Section: c.SectionDigest(), Workloads: c.Workloads,
		Trial: c.Kubelet.OnTrial(), KubeletsFile: c.KubeletsFile != "", ManagedByKubelet: c.ManagedByKubelet,
	}
	for i := range c.Partitions {
		p := &c.Partitions[i]
		d.Partitions = append(d.Partitions, Partition{
			Name: p.Name, Namespaces: p.Namespaces, CPUs: p.CPUs.String(), Exclusive: p.Exclusive,
			Eviction: &p.Thresholds, Protection: p.Protection, Deferral: deferrals[p.Name],
		})
	}
	for _, name := range off {
		d.Partitions = append(d.Partitions, Partition{Name: name, Off: true})
	}
	return d
}

// Of returns what is decided about a partition, which is off if nothing is.
func (d *Decision) Of(name partition.Name) Partition {
	for _, p := range d.Partitions {
		if p.Name == name {
			return p
		}
	}
	return Partition{Name: name, Off: true}
}

// Text returns the content of the file.
func (d Decision) Text() (string, error) {
	d.Version = version
	text, err := json.Marshal(d)
	return string(text) + "\n", err
}

// ErrNone means that there is no decision. That says nothing: on a boot that has had a partition, a
// configuration that asks for none has a decision, too.
var ErrNone = errors.New("there is no decision of partition-generator; systemctl daemon-reload writes one")

// The directories of the generator's output (slices.Output), below the root. The file is in the
// generator's own directory only if units had to be written there.
const (
	generatorDir = "/run/systemd/generator"
	unitsDir     = config.StateDir + "/units"
	oldDir       = config.StateDir + "/units.old"
)

// parse parses the file of this version.
func parse(data []byte) (*Decision, error) {
	d := &Decision{}
	if err := host.DecodeState(data, version, d); err != nil {
		return nil, err
	}
	if d.Identity == "" {
		return nil, errors.New("decides nothing, because the configuration was not valid")
	}
	for i := range d.Partitions {
		p := &d.Partitions[i]
		//guard: a partition whose name no unit can have is not followed
		if err := p.Name.Check(); err != nil {
			return nil, fmt.Errorf("partition %q: the name %w", string(p.Name), err)
		}
		if p.Off != (p.Eviction == nil) {
			return nil, fmt.Errorf("partition %q: only one that is off has no thresholds", string(p.Name))
		}
	}
	return d, nil
}

// Read returns the decision that is in force on the node at root. Every error means that it is not
// known. ErrNone is the error without a decision.
//
// A run of the generator sets the units aside for a moment, hence the second look.
func Read(root string) (*Decision, error) {
	node := host.Root(root)
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
	return nil, ErrNone
}
