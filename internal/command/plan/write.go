package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/text"
)

// WriteTable writes a plan for people: what is left for user pods, and how that comes about.
func WriteTable(w io.Writer, p Plan) error {
	var head string
	if p.Invalid != nil {
		head = fmt.Sprintf("Not valid           %s: the generator refuses it; a limit that it cannot read is not subtracted\n",
			text.Terminal(strings.Join(p.refused(), ", ")))
	}
	head += fmt.Sprintf("Left for user pods  %s of %s, %s of %s CPUs\nConfiguration       %s\n\n",
		text.RoundBytes(p.Remainder.MemoryBytes), text.RoundBytes(p.Capacity.MemoryBytes),
		cpuText(p.Remainder.MilliCPU), cpuText(p.Capacity.MilliCPU), text.Terminal(origin(p.Configuration)))
	if err := output.Write(w, head, nil); err != nil {
		return err
	}
	for _, write := range []func(io.Writer, *Plan){
		writeBudget, writeMembers, writeShares, writePools, writeUsage,
	} {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		write(table, &p)
		if err := table.Flush(); err != nil {
			return err
		}
	}
	var warnings strings.Builder
	for i, warning := range p.Warnings {
		if i == 0 {
			warnings.WriteString("\n") // after the tables
		}
		fmt.Fprintf(&warnings, "warning  %s\n", text.Terminal(warning))
	}
	return output.Write(w, warnings.String(), output.Severities)
}

func origin(c node.KubeletOrigin) string {
	from := append([]string{}, c.Files...)
	if c.KubeletPID != 0 {
		from = append(from, fmt.Sprintf("command line of process %d", c.KubeletPID))
	}
	if len(from) == 0 {
		return "none"
	}
	return strings.Join(from, ", ")
}

func writeBudget(w io.Writer, p *Plan) {
	fmt.Fprintln(w, "BUDGET\tCPU\tMEMORY\tSTORAGE")
	row := func(name string, amount budget.Resources) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, cpuText(amount.MilliCPU),
			text.RoundBytes(amount.MemoryBytes), storageText(amount.StorageBytes))
	}
	row("capacity", p.Capacity)
	row("- kubeReserved", p.KubeReserved)
	row("- systemReserved", p.SystemReserved)
	row("- eviction threshold", p.EvictionThreshold)
	if p.HugePagesBytes != 0 {
		row("- huge pages", budget.Resources{MemoryBytes: p.HugePagesBytes})
	}
	row("= Node Allocatable", p.Allocatable)
	for i := range p.Partitions {
		row("- partition "+string(p.Partitions[i].Name), p.Partitions[i].Resources)
	}
	row("= left for user pods", p.Remainder)
	if p.PromisedBytes > 0 {
		most := ""
		if slices.ContainsFunc(p.Partitions, func(p budget.Partition) bool { return p.Members == nil }) {
			most = "at most "
		}
		fmt.Fprintf(w, "  not requested\t-\t%s%s\t-\n", most, text.RoundBytes(p.PromisedBytes))
	}
}

// writeMembers writes the sums over the pods of each partition.
func writeMembers(w io.Writer, p *Plan) {
	if !slices.ContainsFunc(p.Partitions, func(p budget.Partition) bool { return p.Members != nil }) {
		return
	}
	fmt.Fprintln(w, "\nPODS OF\tCOUNT\tREQUESTS\tLIMITS\tWITHOUT A LIMIT")
	for i := range p.Partitions {
		if m := p.Partitions[i].Members; m != nil {
			fmt.Fprintf(w, "partition %s\t%d\t%s\t%s\t%d\n", p.Partitions[i].Name, m.Pods,
				text.RoundBytes(m.MemoryRequestBytes), text.RoundBytes(m.MemoryLimitBytes), m.Unlimited)
		}
	}
}

// writeShares writes the limits that are percentages of the node's memory.
func writeShares(w io.Writer, p *Plan) {
	head := "\nPARTITION\tMEMORYLIMIT\tOF\tIS\tBY\n"
	for i := range p.Partitions {
		if of := &p.Partitions[i]; of.Share != "" {
			fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\n", head, of.Name, of.Share, text.RoundBytes(int64(of.ShareOfBytes)),
				text.RoundBytes(of.MemoryBytes), cmp.Or(of.Bound, "-"))
			head = ""
		}
	}
}

func writePools(w io.Writer, p *Plan) {
	fmt.Fprintln(w, "\nPOOL\tCPUS\tCOUNT")
	row := func(name string, pool budget.Pool) {
		cpus := pool.CPUs
		if cpus == "" {
			cpus = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\n", name, cpus, pool.Count)
	}
	for i := range p.Partitions {
		row("partition "+string(p.Partitions[i].Name), p.Partitions[i].Pool)
	}
	row("reserved", p.CPUPools.Reserved)
	row("shared", p.CPUPools.Shared)
}

func writeUsage(w io.Writer, p *Plan) {
	if len(p.Usage) == 0 {
		return
	}
	fmt.Fprintln(w, "\nSLICE\tMEMORY\tWORKING SET\tPEAK")
	for _, u := range p.Usage {
		peak := "-"
		if u.PeakBytes != nil {
			peak = text.Bytes(*u.PeakBytes)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Slice, text.Bytes(u.MemoryBytes), text.Bytes(u.WorkingSetBytes), peak)
	}
}

// cpuText returns thousandths of a CPU as Kubernetes writes them.
func cpuText(milli int64) string {
	return resource.NewMilliQuantity(milli, resource.DecimalSI).String()
}

func storageText(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return text.RoundBytes(*bytes)
}
