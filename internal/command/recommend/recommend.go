package recommend

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/evict"
)

// Options holds the flags of the command recommend.
type Options struct {
	// Node is the node that is read.
	Node host.Node
	// Partition is the partition to compute the limit of; "" means the system partition.
	Partition partition.Name
	// Force asks for a section even if the history is too short for one, or the limit not to be
	// applied.
	Force bool
}

// Advice is the output of the command recommend. Its JSON is for scripts: new versions add fields
// and do not change them.
type Advice struct {
	// Partition is the partition that the limit is for, and Slice its slice.
	Partition partition.Name `json:"partition"`
	Slice     string         `json:"slice"`
	// Until is the end of the last minute that was measured.
	Until time.Time `json:"until"`
	sizing.Advice
	// LargestMember is the member that has used most, "" if it is not known.
	LargestMember string `json:"largestMember,omitempty"`
	// NoSection lists the reasons why the limit is not to be applied.
	NoSection []string `json:"noSection"`
	Warnings  []string `json:"warnings"`
	// SystemPartition or WorkloadPartitions has the present section with the recommended limit. They
	// are absent without any.
	SystemPartition    map[string]any                    `json:"systemPartition,omitempty"`
	WorkloadPartitions map[partition.Name]map[string]any `json:"workloadPartitions,omitempty"`

	// beside holds the rest of the file that the section is for.
	beside beside
	// censored means that pods were evicted: what they would have used is not in the figures.
	censored bool
}

// Read computes the advice. It returns an error if nothing was measured. If there is no section
// that can be applied, the Advice says why, and has figures alone.
func Read(o Options) (Advice, error) {
	partition := cmp.Or(o.Partition, partition.First)
	r, inRun, err := sizefile.Read(o.Node.Root, partition)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Advice{}, unmeasured(partition)
	case errors.Is(err, os.ErrPermission):
		return Advice{}, fmt.Errorf("%w; it has to run as root", err)
	case err != nil:
		return Advice{}, err
	}
	a := Advice{
		Partition: partition, Slice: partition.Slice(), Until: r.To, Advice: node.Advise(o.Node.Root, &r),
		LargestMember: r.Largest(), NoSection: []string{}, Warnings: []string{},
	}
	if a.LimitBytes == 0 {
		return Advice{}, unmeasured(partition)
	}
	a.judge(&r, inRun, node.MemoryCapacity(o.Node.Root))
	a.evicted(o.Node, r.Begin())
	if len(a.NoSection) == 0 || o.Force {
		err = a.section(o.Node.Root)
	}
	return a, err
}

// week is the length of a record that has what happens once a week.
const week = 7 * 24 * time.Hour

// unmeasured says how a partition is measured.
func unmeasured(partition partition.Name) error {
	return fmt.Errorf("nothing was measured of partition %q: %s has no minute of it; partition-monitor.service writes it each ten minutes "+
		"while the partition exists, also one without memoryLimit", partition, sizefile.Dir)
}

// judge finds what the history lacks, and the reasons why the limit is not to be applied.
func (a *Advice) judge(r *sizefile.Record, inRun bool, memory uint64) {
	length := a.Length()
	switch {
	case length < sizing.LeastLength:
		a.NoSection = append(a.NoSection, fmt.Sprintf("%s were measured, and a limit needs %s: wait", sizing.Text(length), sizing.Text(sizing.LeastLength)))
	case length < week:
		a.warn("%s were measured: what happens once a week is not in the figures, and with a week there is less slack", sizing.Text(length))
	}
	if memory > 0 && a.LimitBytes >= memory {
		a.NoSection = append(a.NoSection, fmt.Sprintf("the limit of %s is not below the memory of the node, %s: it protects nothing; "+
			"give the pods of the partition less to do, or the node more memory", text.Bytes(a.LimitBytes), text.Bytes(memory)))
	}
	if missing := r.Missing(); missing > length/10 {
		a.warn("in addition to the %s, %s were not measured, because the monitor did not run", sizing.Text(length), sizing.Text(missing))
	}
	if r.Lacks != "" {
		a.warn("the record lacks something: %s", r.Lacks)
	}
	if inRun {
		a.warn("the record is in %s, which a reboot empties: %s cannot be written", sizefile.Volatile, sizefile.Dir)
	}
	if len(r.Members) == 0 {
		a.warn("no member was measured: the largest counts as twice the mean of %d", a.Members)
	}
	if l := a.Leak; l != nil {
		a.warn("%s grows without returning: the partition used %s at least, and now %s. The limit has room for what is in use, and not for what it will add; "+
			"give it a memory limit, or restart it, unless it is a cache or a cluster that grows",
			cmp.Or(l.Member, "the partition"), text.Bytes(l.From), text.Bytes(l.To))
	}
}

// evicted says which evictions since a time the figures have in them.
func (a *Advice) evicted(n host.Node, since time.Time) {
	history, err := node.EvictionFile(n, a.Partition).Read()
	if err != nil {
		a.warn("whether pods were evicted: %v", err)
	}
	evictions := slices.DeleteFunc(append(history.Last, history.Open...), func(e evict.Eviction) bool {
		return e.DryRun || e.Time.Before(since)
	})
	if a.censored = len(evictions) > 0; a.censored {
		last := evictions[len(evictions)-1]
		a.warn("pods were evicted, the last one, %s/%s, at %s: what they would have used is not in the figures; give one that leaks a memory limit",
			last.Namespace, last.Name, output.Time(last.Time))
	}
}

// Verdict returns an error if there is no section.
func (a *Advice) Verdict() error {
	if a.SystemPartition == nil && a.WorkloadPartitions == nil {
		return fmt.Errorf("no section: %s", text.Terminal(strings.Join(a.NoSection, "; ")))
	}
	return nil
}

func (a *Advice) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, fmt.Sprintf(format, args...))
}

// reasons returns the rows of the table: a figure, its amount, and what it stands on.
func (a *Advice) reasons() [][]string {
	amount := func(bytes float64) string { return text.Bytes(uint64(bytes)) }
	n := &a.Need
	of := cmp.Or(a.LargestMember, "twice the mean")
	rows := [][]string{
		{"peak", amount(n.Peak), "the largest usage of all hours, with members outside, until " + output.Time(a.Until)},
		{"level", amount(n.Level), "the largest usage of the hours that tell where it is now"},
		{"largest member", amount(n.Member), of},
		{"growth", amount(n.Growth), fmt.Sprintf("what members may grow by in %s, as a standard deviation of %.0f independent hours", sizing.Text(n.Ahead), n.Looks)},
		{"spread", amount(n.Spread), "from one hour to the next"},
		{"drift", amount(n.Drift), "of all members together, a hundredth in a week"},
		{"need", amount(n.Bytes), "the peak, or level + 2.81 x sqrt(growth² + spread² + drift²)"},
		{"requests", text.Bytes(a.RequestBytes), "of the members, whom no limit is below"},
		{"threshold", text.Bytes(a.ThresholdBytes), "the margin at which the partition evicts"},
		{"memoryLimit", text.Bytes(a.LimitBytes), "need or requests, and the threshold, rounded up"},
	}
	return slices.DeleteFunc(rows, func(row []string) bool { return row[0] == "requests" && a.RequestBytes == 0 })
}
