// Package recommend reads a history, has a recommendation computed, and writes it as a section that
// "partition-monitor try" takes. It changes nothing.
package recommend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/host"
	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/node"
	"nodepartition/internal/node/allocatable"
	"nodepartition/internal/oneline"
	"nodepartition/internal/recommend"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/slices/config"
)

// Options holds the flags of the command recommend.
type Options struct {
	// Node is the running node.
	Node host.Node
	// Dir is the folder of the history.
	Dir string
	// Partition is the partition to compute figures for; "" means the system partition.
	Partition unitname.PartitionName
	// Since is the time from which on samples count.
	Since time.Time
	// Now is the time after which samples do not count: a clock was wrong when they were taken.
	Now time.Time
	// AtLimit in bytes is a limit to simulate, 0 for none.
	AtLimit uint64
	// Protected selects the pods that are never evicted.
	Protected evict.Protected
	// WithoutLeaks asks for the limit without what leaks have added, even if more is in use. Force
	// asks for a section even if the history is too short, or the limit is not to be applied.
	WithoutLeaks, Force bool
}

// Advice holds the output of the command recommend. Its JSON is for scripts: new versions add
// fields and do not change them.
type Advice struct {
	recommend.Recommendation
	// Partition is the partition that the figures are for.
	Partition unitname.PartitionName
	// Section is the present section of the partition with the recommended values. It is nil without
	// any.
	Section map[string]any

	// beside holds the rest of the file that the section is for.
	beside beside
}

// beside holds what the file of a recommended section has besides: the file replaces each of the
// two sections of the configuration as a whole.
type beside struct {
	// system is systemPartition beside a workload partition, and workloads is workloadPartitions
	// beside the system partition; nil if the file does not have them.
	system, workloads json.RawMessage
	// others lists the other partitions of workloadPartitions beside a workload partition.
	others map[string]json.RawMessage
}

// Read computes the recommendation until ctx ends. It returns an error if there is no history. If
// there is no section that can be applied, the Advice says why, and has figures alone.
func Read(ctx context.Context, o Options) (Advice, error) {
	h, err := node.ReadHistory(ctx, o.Dir, o.Partition)
	if err != nil {
		return Advice{}, err
	}
	return o.advise(ctx, h)
}

// advise computes the recommendation of a history.
func (o *Options) advise(ctx context.Context, h samples.History) (Advice, error) {
	var notes []string
	shown := node.Shown(o.Partition)
	list := o.counted(h, &notes)
	in := recommend.Input{
		Samples: list, Protected: o.Protected, AtLimit: o.AtLimit, WithoutLeaks: o.WithoutLeaks,
		Alone: !isSystem(shown),
	}
	if !slices.Contains(h.Partitions, shown) {
		in.Others = node.PartitionNames(h.Partitions)
	}
	has := o.node(list, &notes)
	in.NodeBytes, in.LeastThreshold = has.MemoryBytes, node.LeastThreshold(has)
	if !o.elsewhere() {
		if n, err := allocatable.Read(o.Node); err == nil {
			in.MaxPods = n.MaxPods
		}
	}
	computed, err := recommend.Compute(ctx, in)
	if err != nil {
		return Advice{}, err
	}
	a := Advice{Recommendation: computed, Partition: shown}
	a.Warnings = append(a.Warnings, notes...)
	if h.Broken > 0 {
		a.warn("%d lines of the history are broken, and left out", h.Broken)
	}
	if len(a.NoSection) > 0 && !o.Force || a.MemoryLimit == nil {
		return a, nil
	}
	return a, a.section(o.Node.Root, o.elsewhere(), in.LeastThreshold)
}

// isSystem reports whether a partition is the system partition.
func isSystem(partition unitname.PartitionName) bool { return partition == node.Shown("") }

// elsewhere reports whether the history may come from another node.
func (o *Options) elsewhere() bool { return filepath.Clean(o.Dir) != o.Node.Path(node.HistoryDir) }

// before is a time at which no sample was taken: a clock that shows it has not been set since the
// boot.
var before = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// counted returns the samples that count, and notes those that are left out.
func (o *Options) counted(h samples.History, notes *[]string) []samples.Sample {
	var list []samples.Sample
	future, past := 0, 0
	for _, s := range h.Coarse() {
		switch {
		case s.Time.After(o.Now):
			future++
		case s.Time.Before(before):
			past++
		case s.Time.After(o.Since):
			list = append(list, s)
		}
	}
	if future > 0 {
		*notes = append(*notes, fmt.Sprintf("%d samples are from the future, and left out: the clock was changed", future))
	}
	if past > 0 {
		*notes = append(*notes, fmt.Sprintf("%d samples are from before %d, and left out: the clock was not set yet", past, before.Year()))
	}
	return list
}

// node returns what the node of the history has: this one, or the one that a history from elsewhere
// has recorded. It notes if that is not known.
func (o *Options) node(list []samples.Sample, notes *[]string) samples.Node {
	if o.elsewhere() {
		for _, s := range slices.Backward(list) {
			if s.Node != nil {
				return *s.Node
			}
		}
	}
	has, err := node.Has(o.Node.Root)
	switch {
	case err != nil:
		*notes = append(*notes, fmt.Sprintf("the CPUs and the memory of this node are not known: %v", err))
	case o.elsewhere():
		*notes = append(*notes, fmt.Sprintf("the history does not have the CPUs and the memory of its node: the figures are for this one, with %d CPUs and %s",
			has.CPUs, bytesize.Text(has.MemoryBytes)))
	}
	return has
}

// Verdict returns an error if there is no section, or if the one that there is would evict at once.
func (a *Advice) Verdict() error {
	switch {
	case a.Section == nil:
		return fmt.Errorf("no section: %s", oneline.Terminal(strings.Join(a.NoSection, "; ")))
	case a.EvictsAtOnce:
		return errors.New("the section would evict at once: see the warnings")
	}
	return nil
}

func (a *Advice) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
}

// The fields of the section that are replaced.
const (
	fieldLimit      = "memoryLimit"
	fieldHard       = "evictionHard"
	fieldNamespaces = "namespaces"
	signal          = "memory.available"
)

// section puts the recommended values into the present section, or into none for a node elsewhere.
// leastThreshold is the least threshold for the CPUs of the node, in
// bytes.
func (a *Advice) section(root hostfs.FS, elsewhere bool, leastThreshold uint64) error {
	a.Section = map[string]any{}
	if elsewhere {
		a.warn("the history comes from another folder: the section has the recommended fields alone; copy the others from its node")
	} else {
		a.present(root)
	}
	if a.isSystem() && a.Section[fieldNamespaces] == nil {
		a.Section[fieldNamespaces] = []string{"kube-system"}
		if !elsewhere {
			a.warn("there is no section with namespaces: the recommendation has kube-system")
		}
	}
	a.Section[fieldLimit] = quantity(a.MemoryLimit.Bytes)
	a.Section[fieldHard] = map[string]string{signal: quantity(a.EvictionHard.Bytes)}
	if !elsewhere {
		a.asShare(root, leastThreshold)
	}
	text, err := a.document()
	if err != nil || elsewhere {
		return err
	}
	if _, err := config.LoadWith(string(root), "the recommendation", text); err != nil {
		for _, problem := range config.Problems(err) {
			a.warn("try would refuse it: %v", problem)
		}
	}
	return nil
}

// isSystem reports whether the figures are for the system partition.
func (a *Advice) isSystem() bool { return isSystem(a.Partition) }

// path is the field of the configuration below which the section's fields are, with a dot; "" for
// the system partition.
func (a *Advice) path() string {
	if a.isSystem() {
		return ""
	}
	return kubeletconfig.WorkloadsField + "." + string(a.Partition) + "."
}

// present reads the fields of the present section, and what its file has besides.
func (a *Advice) present(root hostfs.FS) {
	present, err := kubeletconfig.Load(root)
	var own json.RawMessage
	switch {
	case err != nil:
	case a.isSystem():
		own = present.System.JSON
		if present.Workloads.Overrides() {
			a.beside.workloads = present.Workloads.JSON
		}
	default:
		err = unmarshal(present.Workloads.JSON, &a.beside.others)
		own = a.beside.others[string(a.Partition)]
		if present.System.Overrides() {
			a.beside.system = present.System.JSON
		}
	}
	if err == nil {
		err = unmarshal(own, &a.Section)
	}
	switch {
	case err != nil:
		a.warn("the present section is not valid, and not a part of the recommendation: %v", err)
	case len(own) == 0 && !a.isSystem():
		a.warn("%s is not in the configuration: the section has the recommended fields alone", strings.TrimSuffix(a.path(), "."))
	}
	if a.Section == nil {
		a.Section = map[string]any{}
	}
}

// unmarshal reads JSON into what to points to, if there is any.
func unmarshal(text json.RawMessage, to any) error {
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, to)
}

// document returns the configuration with the section, and with what else the file has that it
// replaces.
func (a *Advice) document() ([]byte, error) {
	fields := map[string]any{"apiVersion": kubeletconfig.APIVersion, "kind": kubeletconfig.Kind}
	if a.isSystem() {
		fields[kubeletconfig.SectionField] = a.Section
		if a.beside.workloads != nil {
			fields[kubeletconfig.WorkloadsField] = a.beside.workloads
		}
		return yaml.Marshal(fields)
	}
	workloads := map[string]any{}
	for name, section := range a.beside.others {
		workloads[name] = section
	}
	workloads[string(a.Partition)] = a.Section
	fields[kubeletconfig.WorkloadsField] = workloads
	if a.beside.system != nil {
		fields[kubeletconfig.SectionField] = a.beside.system
	}
	return yaml.Marshal(fields)
}

// quantity returns bytes, which are whole mebibytes, as a quantity.
func quantity(bytes uint64) string { return fmt.Sprintf("%dMi", bytes>>20) }
