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
	"nodepartition/internal/terminal"
	"nodepartition/internal/thresholds"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// Eviction is the part of status about eviction in a partition. Amounts are in bytes.
type Eviction struct {
	// Mode is on, off or dry-run.
	Mode string `json:"mode"`
	// AvailableBytes is the memory left below the limit. Page cache does not count as used.
	// WorkingSetBytes is the working set as the kubelet would count it.
	AvailableBytes  uint64 `json:"availableBytes"`
	WorkingSetBytes uint64 `json:"workingSetBytes"`
	// OwnerlessBytes is the memory that belongs to no pod that runs in the partition
	// (evict.Ownerless).
	OwnerlessBytes uint64 `json:"ownerlessBytes"`
	// NoLimit means that the partition has no memory limit: AvailableBytes is 0, and no pod is
	// evicted.
	NoLimit bool `json:"noLimit,omitempty"`
	// HardBytes and SoftBytes are the thresholds, 0 for none; SoftGrace is in nanoseconds.
	HardBytes uint64        `json:"hardBytes"`
	SoftBytes uint64        `json:"softBytes"`
	SoftGrace time.Duration `json:"softGrace"`
	// Crossed is the threshold that is crossed now.
	Crossed evict.Threshold `json:"crossed,omitempty"`
	// Estimated means that requests and priorities are approximations, because the kubelet serves no
	// Pods API.
	Estimated bool `json:"estimated"`
	// Order lists the pods of the partition in eviction order.
	Order []Candidate `json:"order"`
	// Open lists the evictions in progress, and Last those that have ended, the newest last.
	Open []evict.Eviction `json:"open"`
	Last []evict.Eviction `json:"last"`
}

// Candidate is a pod of the partition, with the values that rank it. Skip is the reason why it is
// not a candidate.
type Candidate struct {
	Namespace       string     `json:"namespace"`
	Name            string     `json:"name"`
	UID             string     `json:"uid"`
	Priority        int32      `json:"priority"`
	WorkingSetBytes uint64     `json:"workingSetBytes"`
	RequestBytes    uint64     `json:"requestBytes"`
	Estimated       bool       `json:"estimated"`
	Skip            evict.Skip `json:"skip,omitempty"`
}

// readMemory reads the memory of a partition, and ranks its pods as the service does. It evicts
// none.
func (a *Active) readMemory(n host.Node, config evict.Settings, pods []evict.Pod) error {
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
) (*Eviction, error) {
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
	s := &Eviction{
		Mode:            "on",
		AvailableBytes:  decision.Available,
		WorkingSetBytes: reading.WorkingSet(),
		OwnerlessBytes:  snapshot.Ownerless,
		HardBytes:       config.Hard,
		SoftBytes:       config.Soft,
		SoftGrace:       config.SoftGrace,
		Crossed:         decision.Crossed,
		Order:           []Candidate{},
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
		s.Order = append(
			s.Order,
			Candidate{c.Namespace, c.Name, c.UID, c.Priority, c.Usage.WorkingSet, c.Request, c.Estimated, c.Skip},
		)
	}
	return s, errors.Join(problems...)
}

// shownEvictions is the number of ended evictions in the table.
const shownEvictions = 5

// writeEviction writes the state of evictions. whose says of which partition, if there are several.
func writeEviction(w io.Writer, whose string, s *Eviction) error {
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
		switch nearest := thresholds.Nearest(s.HardBytes, s.SoftBytes); {
		case nearest == 0 || s.AvailableBytes < nearest:
		case s.SoftBytes > s.HardBytes:
			fmt.Fprintf(&text, ": %s until the soft threshold", bytesize.Text(s.AvailableBytes-nearest))
		default:
			fmt.Fprintf(&text, ": %s until an eviction", bytesize.Text(s.AvailableBytes-nearest))
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
		turn := 0
		for _, c := range s.Order {
			place := "never: " + string(c.Skip)
			if c.Skip == "" {
				turn++
				place = ordinal(turn)
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

// ordinal returns "next" for 1, and "n." otherwise.
func ordinal(n int) string {
	if n == 1 {
		return "next"
	}
	return fmt.Sprintf("%d.", n)
}

func writeEvictions(w io.Writer, s *Eviction) error {
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
