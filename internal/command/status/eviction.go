package status

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/host"
	"nodepartition/internal/node"
	"nodepartition/internal/oneline"
	"nodepartition/internal/state"
	"nodepartition/internal/terminal"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// readMemory reads the memory of a partition, and ranks its pods as the service does. It evicts
// none.
func readMemory(a *state.Partition, n host.Node, config evict.Settings, pods []evict.Pod) error {
	meter, err := n.Cgroups.MemoryMeter(unitname.CgroupPath(a.Slice))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer meter.Close()
	reading, err := meter.Read(func(uint64, uint64) bool { return false })
	if err != nil {
		return err
	}
	a.UsedBytes = reading.Used()
	a.Eviction, err = readEviction(n, a.Name, config, reading, pods)
	return err
}

// readEviction ranks the pods of a partition whose memory was read.
func readEviction(
	n host.Node, name unitname.PartitionName, config evict.Settings, reading cgroupfs.MemoryReading, pods []evict.Pod,
) (*state.Eviction, error) {
	history, err := node.ReadEvictions(n, name)
	if err != nil {
		return nil, err
	}
	var problems []error
	pods = evict.Measure(n.Cgroups, pods, func(err error) { problems = append(problems, err) })
	snapshot := evict.Situation{
		Now:    time.Now(),
		Config: config,
		Memory: reading,
		Pods:   pods,

		Ownerless: evict.Ownerless(reading.Used(), pods),

		State: evict.State{Cooldown: history.Cooldown, Stays: history.Stays},
	}
	decision, config := evict.Decide(snapshot), snapshot.Effective()
	s := &state.Eviction{
		Mode:            "on",
		AvailableBytes:  decision.Available,
		WorkingSetBytes: reading.WorkingSet(),
		OwnerlessBytes:  snapshot.Ownerless,
		HardBytes:       config.Hard,
		SoftBytes:       config.Soft,
		SoftGrace:       config.SoftGrace,
		Crossed:         decision.Crossed,
		Order:           []state.Candidate{},
		Open:            append([]evict.Eviction{}, history.Open...),
		Last:            append([]evict.Eviction{}, history.Last...),
	}
	if decision.Limit == cgroupfs.Unlimited {
		s.NoLimit, s.AvailableBytes = true, 0
	}
	switch {
	case config.Off:
		s.Mode = "off"
	case config.DryRun:
		s.Mode = "dry-run"
	}
	for _, c := range decision.Order {
		s.Estimated = s.Estimated || c.Estimated
		s.Order = append(s.Order, state.Candidate{
			Namespace: c.Namespace, Name: c.Name, UID: c.UID, Priority: c.Priority,
			WorkingSetBytes: c.Usage.WorkingSet, RequestBytes: c.Request, Estimated: c.Estimated, Skip: c.Skip,
		})
	}
	return s, errors.Join(problems...)
}

// shownEvictions is the number of ended evictions in the table.
const shownEvictions = 5

// writeEviction writes the state of evictions. whose says of which partition, if there are several.
func writeEviction(w io.Writer, whose string, s *state.Eviction) error {
	if s == nil {
		return nil
	}
	var text strings.Builder
	styles := map[string]ansi.Style{}
	fmt.Fprintf(&text, "\n%-11s %s", "Eviction"+whose, s.Mode)
	switch {
	case s.Mode == "off":
	case s.NoLimit:
		fmt.Fprint(&text, ", without a memory limit: the partition only sets CPU weights and reports usage")
	default:
		fmt.Fprintf(&text, ", %s available", bytesize.Text(s.AvailableBytes))
		if s.HardBytes+s.SoftBytes == 0 {
			fmt.Fprint(&text, ", without a threshold")
		}
		if s.HardBytes > 0 {
			fmt.Fprintf(&text, ", evicts below %s", bytesize.Text(s.HardBytes))
		}
		if s.SoftBytes > 0 {
			fmt.Fprintf(&text, ", or below %s for %s", bytesize.Text(s.SoftBytes), s.SoftGrace)
		}
		if margin := state.Margin(s.AvailableBytes, s.HardBytes, s.SoftBytes); margin != "" {
			fmt.Fprintf(&text, ": %s", margin)
		}
		if s.Crossed != "" {
			styles["Eviction"] = terminal.Alarm
			fmt.Fprintf(&text, "; BELOW THE %s THRESHOLD NOW", s.Crossed)
		}
	}
	fmt.Fprintln(&text)
	if evict.LeftBehind(s.OwnerlessBytes, len(s.Order)) > 0 {
		fmt.Fprintf(&text, "            %s belong to no pod that runs in it\n", bytesize.Text(s.OwnerlessBytes))
	}
	if s.Estimated {
		fmt.Fprintln(&text, "            requests and priorities are estimated: the kubelet serves no Pods API")
	}
	if err := terminal.Write(w, text.String(), margin, styles); err != nil {
		return err
	}
	if len(s.Order) > 0 {
		fmt.Fprintln(w)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "EVICTION ORDER\tNAMESPACE\tPOD\tPRIORITY\tWORKING SET\tREQUESTS")
		candidates := 0
		for _, c := range s.Order {
			place := state.Turn(c.Skip, candidates)
			if c.Skip == "" {
				candidates++
			} else {
				place += ": " + string(c.Skip)
			}
			fmt.Fprintf(
				table, "%s\t%s\t%s\t%d\t%s\t%s\n",
				place, oneline.Terminal(c.Namespace), oneline.Terminal(c.Name), c.Priority, bytesize.Text(c.WorkingSetBytes),
				bytesize.Text(c.RequestBytes),
			)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return writeEvictions(w, s)
}

func writeEvictions(w io.Writer, s *state.Eviction) error {
	last := s.Last[max(0, len(s.Last)-shownEvictions):]
	if len(last)+len(s.Open) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EVICTED\tNAMESPACE\tPOD\tTHRESHOLD\tMETHOD\tUSED\tREQUESTED\tREMARKS")
	row := func(e evict.Eviction, remark string) {
		fmt.Fprintf(
			table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			e.Time.Format(time.RFC3339), oneline.Terminal(e.Namespace), oneline.Terminal(e.Name), e.Threshold, e.Method,
			bytesize.Text(e.WorkingSetBytes), bytesize.Text(e.RequestBytes), oneline.Terminal(remark),
		)
	}
	for _, e := range last {
		remark := e.Problem
		switch {
		case e.DryRun:
			remark = "dry run"
		case remark == "":
			remark = "-"
		}
		row(e, remark)
	}
	for _, e := range s.Open {
		row(e, "under way")
	}
	return table.Flush()
}
