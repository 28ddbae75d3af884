package plan

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"nodepartition/internal/budget"
	"nodepartition/internal/bytesize"
	"nodepartition/internal/oneline"
	"nodepartition/internal/output"
)

// WriteJSON writes a plan for scripts.
func WriteJSON(w io.Writer, p Plan) error {
	return output.JSON(w, p)
}

// WriteYAML writes a plan as YAML, with the fields of the JSON.
func WriteYAML(w io.Writer, p Plan) error {
	text, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// WriteTable writes a plan for people.
func WriteTable(w io.Writer, p Plan) error {
	fmt.Fprintf(w, "Configuration  %s\n\n", oneline.Terminal(p.Configuration.text()))
	for _, write := range []func(io.Writer, *Plan){writeBudget, writePools, writeProviders, writeUsage} {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		write(table, &p)
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(w, "\nwarning: %s\n", oneline.Terminal(warning))
	}
	return nil
}

func (c Configuration) text() string {
	from := append([]string{}, c.Files...)
	if c.KubeletPID != 0 {
		from = append(from, fmt.Sprintf("command line of process %d", c.KubeletPID))
	}
	if len(from) == 0 {
		return "none"
	}
	return strings.Join(from, ", ")
}

// hugePages is the row that a node without huge pages does not have.
const hugePages = "- huge pages"

func writeBudget(w io.Writer, p *Plan) {
	fmt.Fprintln(w, "BUDGET\tCPU\tMEMORY\tSTORAGE")
	for _, row := range []struct {
		name   string
		amount budget.Resources
	}{
		{"capacity", p.Capacity},
		{"- kubeReserved", p.KubeReserved},
		{"- systemReserved", p.SystemReserved},
		{"- eviction threshold", p.EvictionThreshold},
		{hugePages, budget.Resources{MemoryBytes: p.HugePagesBytes}},
		{"= Node Allocatable", p.Allocatable},
		{"- system partition", p.Partition},
		{"= left for user pods", p.Remainder},
	} {
		if row.name == hugePages && row.amount.MemoryBytes == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.name, cpuText(row.amount.MilliCPU),
			bytesize.Round(row.amount.MemoryBytes), storageText(row.amount.StorageBytes))
	}
	if m := p.Members; m != nil {
		fmt.Fprintf(w, "\nThe %d pods of the partition request %s. Their limits are %s; %d have none.\n",
			m.Pods, bytesize.Round(m.MemoryRequestBytes), bytesize.Round(m.MemoryLimitBytes), m.Unlimited)
	}
}

func writePools(w io.Writer, p *Plan) {
	fmt.Fprintln(w, "\nPOOL\tCPUS\tCOUNT")
	for _, row := range []struct {
		name string
		pool budget.Pool
	}{{"partition", p.CPUPools.Partition}, {"reserved", p.CPUPools.Reserved}, {"shared", p.CPUPools.Shared}} {
		cpus := row.pool.CPUs
		if cpus == "" {
			cpus = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\n", row.name, cpus, row.pool.Count)
	}
}

func writeProviders(w io.Writer, p *Plan) {
	fmt.Fprintln(w, "\nPROVIDER\tRULE OF\tRESERVES CPU\tMEMORY\tALLOCATABLE CPU\tMEMORY")
	sum := budget.Resources{
		MilliCPU:    p.KubeReserved.MilliCPU + p.SystemReserved.MilliCPU,
		MemoryBytes: p.KubeReserved.MemoryBytes + p.SystemReserved.MemoryBytes,
	}
	row := func(name, date string, reserved, left budget.Resources) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", name, date, cpuText(reserved.MilliCPU),
			bytesize.Round(reserved.MemoryBytes), cpuText(left.MilliCPU), bytesize.Round(left.MemoryBytes))
	}
	row("this node", "-", sum, p.Allocatable)
	for i := range p.Providers {
		provider := &p.Providers[i]
		row(provider.Name, provider.Date, provider.Reserved, provider.Allocatable)
	}
}

func writeUsage(w io.Writer, p *Plan) {
	if len(p.Usage) == 0 {
		return
	}
	fmt.Fprintln(w, "\nSLICE\tMEMORY\tWORKING SET\tPEAK")
	for _, u := range p.Usage {
		peak := "-"
		if u.PeakBytes != nil {
			peak = bytesize.Text(*u.PeakBytes)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Slice, bytesize.Text(u.MemoryBytes), bytesize.Text(u.WorkingSetBytes), peak)
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
	return bytesize.Round(*bytes)
}
