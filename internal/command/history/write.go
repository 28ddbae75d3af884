package history

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/node"
	"nodepartition/internal/oneline"
	"nodepartition/internal/output"
	"nodepartition/internal/samples"
)

// WriteJSON writes a view for scripts.
func WriteJSON(w io.Writer, v View) error {
	return output.JSON(w, v)
}

// WriteTable writes a view for people, in their time zone.
func WriteTable(w io.Writer, v View) error {
	if v.Partition != "" {
		fmt.Fprintf(w, "Partition %s\n\n", oneline.Terminal(string(v.Partition)))
	}
	if len(v.Samples) == 0 {
		fmt.Fprintf(w, "No samples from %s to %s.\n", output.Time(v.Since), output.Time(v.Until))
	} else {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "UNTIL\tUSED\tWITH CACHE\tLIMIT\tTHRESHOLD\tPRESSURE\tCPU\tKUBELET, RUNTIME\tOTHER SERVICES\tEVENTS")
		for i := range v.Samples {
			if i > 0 {
				writeBreak(table, &v.Samples[i-1], &v.Samples[i])
			}
			writeSample(table, &v.Samples[i])
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for _, p := range v.Partitions {
		fmt.Fprintf(w, "\nThe pods of partition %s at %s, the highest usage of those ten minutes:\n", p.Name, output.Time(p.MembersTime))
		if err := writeMembers(w, p.Members); err != nil {
			return err
		}
	}
	if len(v.others) > 0 {
		fmt.Fprintf(w, "\nThe history has no system partition. --partition=NAME shows another one: %s.\n", node.PartitionNames(v.others))
	}
	if v.BrokenLines > 0 {
		fmt.Fprintf(w, "\n%d lines of the history are broken, and left out.\n", v.BrokenLines)
	}
	return nil
}

// writeBreak writes a row where the node was started again, or where no sample was taken.
func writeBreak(w io.Writer, before, after *samples.Sample) {
	missing := after.Time.Add(-time.Duration(after.Seconds) * time.Second).Sub(before.Time)
	text := ""
	if missing >= 2*time.Minute && before.Seconds+after.Seconds < 2*3600 {
		text = "no samples for " + missing.Round(time.Minute).String()
	}
	if before.Boot != after.Boot {
		text = strings.TrimPrefix(text+", the node was started", ", ")
	}
	if text != "" {
		fmt.Fprintf(w, "-\t\t\t\t\t\t\t\t\t%s\n", text)
	}
}

func writeSample(w io.Writer, s *samples.Sample) {
	var kube, top uint64
	for _, g := range s.Groups {
		if g.Kube {
			kube += g.WorkingSetBytes
		} else {
			top += g.WorkingSetBytes
		}
	}
	services := bytesize.Text(kube) + "\t" + bytesize.Text(top-min(kube, top))
	p := s.Partition
	if p == nil {
		fmt.Fprintf(w, "%s\t-\t-\t-\t-\t-\t-\t%s\tno partition\n", output.Time(s.Time), services)
		return
	}
	limit := "none"
	if p.LimitBytes > 0 {
		limit = bytesize.Text(p.LimitBytes)
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.2f%%\t%dm\t%s\t%s\n", output.Time(s.Time), bytesize.Text(p.UsedPeakBytes),
		bytesize.Text(p.CurrentPeakBytes), limit, bytesize.Text(p.HardBytes), p.PressurePercent, p.MilliCPU,
		services, events(p))
}

// events lists what has happened in a sample.
func events(p *samples.Usage) string {
	var list []string
	for _, pod := range p.Evicted {
		list = append(list, "evicted "+oneline.Terminal(pod))
	}
	if p.KilledAtLimit > 0 {
		list = append(list, fmt.Sprintf("the kernel killed %d at the limit", p.KilledAtLimit))
	}
	if p.KilledElsewhere > 0 {
		list = append(list, fmt.Sprintf("the kernel killed %d in a pod", p.KilledElsewhere))
	}
	return strings.Join(list, ", ")
}

func writeMembers(w io.Writer, members []samples.Member) error {
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, func(a, b samples.Member) int { return -cmp.Compare(a.UsedBytes, b.UsedBytes) })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tPOD\tPRIORITY\tUSED\tWORKING SET\tREQUESTS")
	for _, m := range sorted {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", oneline.Terminal(m.Namespace), oneline.Terminal(m.Name), m.Priority,
			bytesize.Text(m.UsedBytes), bytesize.Text(m.WorkingSetBytes), bytesize.Text(m.RequestBytes))
	}
	return table.Flush()
}
