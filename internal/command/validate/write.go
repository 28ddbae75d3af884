package validate

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/text"
)

// WriteTable writes a result for people: the verdict, and what it stands on.
func WriteTable(w io.Writer, r state.Validation) error {
	var content strings.Builder
	line := func(grade, format string, args ...any) {
		fmt.Fprintf(&content, "%-10s%s\n", grade, text.Terminal(fmt.Sprintf(format, args...)))
	}
	verdict := "is valid"
	if !r.Valid {
		verdict = "is not valid"
	}
	if r.As != "" {
		verdict += ", as " + r.As
	}
	if r.AsItHas != "" {
		verdict += " (it has " + r.AsItHas + ")"
	}
	fmt.Fprintf(&content, "%s %s: %s, %s\n", text.Terminal(r.File), verdict,
		text.Counted(len(r.Problems), "error"), text.Counted(len(r.Warnings), "warning"))
	for i := range r.Problems {
		line("error", "%s", textOf(r.Problems[i]))
	}
	for i := range r.Warnings {
		line("warning", "%s", textOf(r.Warnings[i]))
	}
	for i := range r.Partitions {
		line("ok", "partition %s: %s", r.Partitions[i].Name, textOfSection(&r.Partitions[i]))
	}
	if l := r.Left; l != nil {
		line("ok", "left for user pods: %s of %s, %s CPUs", text.RoundBytes(l.MemoryBytes), text.RoundBytes(l.OfMemoryBytes),
			resource.NewMilliQuantity(l.MilliCPU, resource.DecimalSI))
	}
	if len(r.NotChecked) > 0 {
		line("left out", "%s", strings.Join(r.NotChecked, "; "))
	}
	return output.Write(w, content.String(), output.Severities)
}

// textOfSection describes a partition in one line.
func textOfSection(p *state.Section) string {
	limit := "no memoryLimit"
	switch {
	case p.Share != "" && p.ShareOfBytes == 0:
		limit = "memoryLimit " + p.Share + " of the node's memory"
	case p.Share != "":
		limit = fmt.Sprintf(
			"memoryLimit %s, %s of %s",
			text.RoundBytes(int64(p.MemoryLimitBytes)), p.Share, text.RoundBytes(int64(p.ShareOfBytes)),
		)
		if p.Bound != "" {
			limit += " by " + p.Bound
		}
	case p.MemoryLimitBytes > 0:
		limit = "memoryLimit " + text.RoundBytes(int64(p.MemoryLimitBytes))
	}
	if p.EvictsBelowBytes > 0 {
		limit += ", evicts below " + text.RoundBytes(int64(p.EvictsBelowBytes))
	}
	cpus := "all CPUs"
	if p.CPUs != "" {
		cpus = "CPUs " + p.CPUs
	}
	namespaces := "no namespaces"
	if len(p.Namespaces) > 0 {
		namespaces = "namespaces " + strings.Join(p.Namespaces, ", ")
	}
	return limit + "; " + cpus + "; " + namespaces
}
