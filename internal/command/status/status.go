// Package status reads the state of the partition from the node and the service, and writes it for
// people and for scripts. It changes nothing.
package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/host"
	"nodepartition/internal/node"
	"nodepartition/internal/node/candidates"
	"nodepartition/internal/node/control"
	"nodepartition/internal/node/options"
	"nodepartition/internal/node/trial"
	"nodepartition/internal/oneline"
	"nodepartition/internal/output"
	"nodepartition/internal/sizing"
	"nodepartition/internal/sizing/sizefile"
	"nodepartition/internal/state"
	"nodepartition/internal/terminal"
	"nodepartition/internal/unitname"
	"nodepartition/internal/workload"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// Read reads the node and queries the service, if it is running.
func Read(ctx context.Context, o options.Options) (state.Status, error) {
	status := state.Status{Partitions: []state.Partition{}, Service: service(ctx, o)}
	config, err := node.Load(o.Node, o.Mode)
	if err == nil && config.Problem == nil {
		status.Problem = config.ManagedByKubelet
	} else if config.Problem != nil {
		status.Problem = config.Problem.Error()
	}
	unread := func(err error) {
		status.Problem = strings.TrimPrefix(status.Problem+"; "+err.Error(), "; ")
	}
	if status.Trial, err = trial.Read(o.Node); err != nil {
		unread(err)
	}
	if err := o.Node.NoCgroups(); err != nil {
		unread(err)
	}
	written, err := node.ReadWritten(o.Node)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		unread(err)
	}
	status.NodeResource = written.Seen
	fs := o.Node.Cgroups
	for _, p := range config.Partitions {
		active, ok := readActive(fs, p.Name)
		if !ok {
			continue
		}
		active.Types, active.Namespaces = config.Types(p.Name), p.Namespaces
		active.CPUs, active.Exclusive = p.CPUs, p.Exclusive
		if record, _, err := sizefile.Read(o.Node.Root, p.Name); err == nil {
			active.LastDay = record.Day()
		}
		status.Partitions = append(status.Partitions, active)
	}
	report, pods, err := readPods(ctx, o, config.Policy())
	switch {
	case errors.Is(err, host.ErrNotAsked):
		unread(err)
	case ctx.Err() != nil:
		return status, ctx.Err()
	case err != nil:
		status.PodsUnknown = err.Error()
	}
	for i := range status.Partitions {
		p := &status.Partitions[i]
		settings := node.EvictionSettings(config.Of(p.Name).Eviction, o.Eviction)
		if err := readMemory(p, o.Node, settings, pods(p.Name)); err != nil {
			unread(err) // the places of the pods are shown nevertheless
		}
	}
	status.Report = report
	if o.Node.Answers() == nil {
		add(&status, control.Service{Socket: o.Node.Path(node.ControlSocket), Listen: o.Listen}.LastReport(ctx))
	}
	return status, nil
}

// add adds what only the service knows: which pods are being moved, which moves have failed, and
// the usage of the last minutes.
func add(s *state.Status, told control.Report) {
	known := map[string]podmove.PodReport{}
	for i := range told.Pods {
		known[told.Pods[i].UID] = told.Pods[i]
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if said, ok := known[pod.UID]; ok && pod.Reason != "" && said.Reason != "" {
			pod.Reason, pod.Next = said.Reason, said.Next
		}
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		for _, m := range told.Partitions {
			if m.Name == p.Name {
				p.UsedPeakBytes = max(m.UsedPeakBytes, p.UsedBytes)
			}
		}
	}
}

// readActive reads the cgroup of a partition. It returns false if the partition is not active.
func readActive(fs cgroupfs.FS, name unitname.PartitionName) (state.Partition, bool) {
	active := state.Partition{Name: name, Slice: name.Slice()}
	path := unitname.CgroupPath(active.Slice)
	limits, err := fs.Limits(path)
	if err != nil {
		return active, false
	}
	active.CPUWeight = limits.CPUWeight
	active.MinBytes, active.LowBytes = limits.Protection.Min, limits.Protection.Low
	if limits.MemoryMax != cgroupfs.Unlimited {
		active.LimitBytes = &limits.MemoryMax
	}
	if bytes, err := fs.MemoryCurrent(path); err == nil {
		active.MemoryBytes = bytes
	}
	if bytes, err := fs.SwapCurrent(path); err == nil {
		active.SwapBytes = bytes
	}
	return active, true
}

// service returns whether the service is ready, or why it was not asked.
func service(ctx context.Context, o options.Options) string {
	if err := o.Node.Answers(); err != nil {
		return err.Error()
	}
	return (control.Service{Socket: o.Node.Path(node.ControlSocket), Listen: o.Listen}).Ready(ctx)
}

// inventory returns the pods of a partition that an eviction can choose from.
type inventory func(unitname.PartitionName) []evict.Pod

// readPods reads the node as a pass of the service does, and changes nothing. It returns a report
// of all pods, and the inventory of the partitions.
func readPods(ctx context.Context, o options.Options, config podmove.Policy) (podmove.Report, inventory, error) {
	none := podmove.Report{Time: time.Now(), Pods: []podmove.PodReport{}}
	if err := o.Node.Answers(); err != nil {
		return none, noPods, fmt.Errorf("pods: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kubelet := node.ListPods(ctx, o.PodsAPI)
	runtime := node.NewRuntime(o.Node, o.Runtime, node.AskSystemctl(o.Node), func(bool) {})
	defer runtime.Close() // Watch reads every other second
	gatherer := podmove.Gatherer{Cgroups: o.Node.Cgroups, Proc: o.Node.Proc, Kubelet: kubelet, Runtime: runtime}
	nri := podmove.Unavailable
	if node.Served(ctx, o.NRI) == nil {
		nri = podmove.Working
	}
	snapshot, err := gatherer.Snapshot(ctx, config, nri)
	if err != nil {
		return none, noPods, err
	}
	known, _ := kubelet.Pods()
	d := podmove.Decide(snapshot)
	// The JSON document has [] and not null.
	report := podmove.Report{Time: time.Now(), Pods: append([]podmove.PodReport{}, d.Pods...), Outlived: d.Outlived}
	capacity := node.MemoryCapacity(o.Node.Root)
	return report, func(name unitname.PartitionName) []evict.Pod {
		return candidates.Inventory(name, snapshot.Pods, known, capacity)
	}, nil
}

// noPods returns no pods: a node that is not asked has none to rank.
func noPods(unitname.PartitionName) []evict.Pod { return nil }

// WriteJSON writes a status for scripts.
func WriteJSON(w io.Writer, status state.Status) error {
	return output.JSON(w, status)
}

// margin is behind the name of what a line shows.
const margin = 12

// WriteTable writes a status for people.
func WriteTable(w io.Writer, status state.Status) error {
	var text strings.Builder
	for i := range status.Partitions {
		writePartition(&text, &status.Partitions[i])
	}
	if len(status.Partitions) == 0 {
		fmt.Fprintln(&text, "Partition   none is active")
	}
	if len(status.NodeResource) > 0 {
		list := make([]string, 0, len(status.NodeResource))
		for _, one := range slices.Sorted(maps.Keys(status.NodeResource)) {
			list = append(list, fmt.Sprintf("%s %d", workload.Resource(one), status.NodeResource[one]))
		}
		fmt.Fprintf(&text, "On the Node %s\n", oneline.Terminal(strings.Join(list, ", ")))
	}
	if t := status.Trial; t != nil {
		fmt.Fprintf(
			&text, "Trial       of %s until %s; partition-monitor keep makes it permanent\n",
			oneline.Terminal(t.From), t.Until.Format(trial.TimeOfDay),
		)
	}
	fmt.Fprintf(&text, "Service     %s\n", oneline.Terminal(status.Service))
	if status.Problem != "" {
		fmt.Fprintf(&text, "Problem     %s\n", oneline.Terminal(status.Problem))
	}
	if status.PodsUnknown != "" {
		fmt.Fprintf(&text, "Pods        not shown, nor the order of evictions: %s\n", oneline.Terminal(status.PodsUnknown))
	}
	for _, o := range status.Outlived {
		fmt.Fprintf(
			&text, "Outlived    %s in %s: its processes have outlived their pod\n",
			oneline.Terminal(o.Scope), oneline.Terminal(o.Slice),
		)
	}
	styles := map[string]ansi.Style{"Problem": terminal.Alarm, "Pods": terminal.Caution, "Outlived": terminal.Caution}
	if status.Service != "ready" {
		styles["Service"] = terminal.Caution
	}
	if err := terminal.Write(w, text.String(), margin, styles); err != nil {
		return err
	}
	for i := range status.Partitions {
		p := &status.Partitions[i]
		title := ""
		if len(status.Partitions) > 1 {
			title = " of " + string(p.Name)
		}
		if err := writeEviction(w, title, p.Eviction); err != nil {
			return err
		}
	}
	if status.PodsUnknown != "" {
		return nil
	}
	return writePods(w, status.Pods)
}

// writePods writes a line for each pod.
func writePods(w io.Writer, pods []podmove.PodReport) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nNAMESPACE\tPOD\tQOS\tMEMBER\tPARTITION\tCONTAINERS\tMISPLACED\tWHY")
	for _, pod := range pods {
		member := "no"
		if pod.Member {
			member = "yes"
		}
		fmt.Fprintf(
			table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n",
			oneline.Terminal(pod.Namespace), oneline.Terminal(pod.Name), pod.QoS, member, pod.Partition(), pod.Containers,
			pod.Misplaced, oneline.Terminal(why(pod)),
		)
	}
	return table.Flush()
}

func writePartition(w io.Writer, a *state.Partition) {
	fmt.Fprintf(w, "Partition   %s\n", a.Slice)
	if len(a.Types) > 0 {
		fmt.Fprintf(w, "Types       %s\n", strings.Join(a.Types, ", "))
	}
	fmt.Fprintf(w, "Namespaces  %s\n", strings.Join(a.Namespaces, ", "))
	limit := "no limit"
	if a.LimitBytes != nil {
		limit = bytesize.Text(*a.LimitBytes)
	}
	fmt.Fprintf(w, "Memory      %s of %s\n", bytesize.Text(a.MemoryBytes), limit)
	if a.UsedBytes > 0 {
		fmt.Fprintf(w, "Used        %s as eviction counts it", bytesize.Text(a.UsedBytes))
		if a.UsedPeakBytes > 0 {
			fmt.Fprintf(w, ", %s at most in the last %.0f minutes", bytesize.Text(a.UsedPeakBytes), evict.PeakWindow.Minutes())
		}
		fmt.Fprintln(w)
	}
	if d := a.LastDay; d != nil {
		fmt.Fprintf(w, "Last day    %s at most, at %s, of %s\n",
			bytesize.Text(d.PeakBytes), output.Time(d.PeakTime), sizing.Text(d.Length()))
	}
	if a.SwapBytes > 0 {
		fmt.Fprintf(w, "Swap        %s\n", bytesize.Text(a.SwapBytes))
	}
	if a.MinBytes > 0 || a.LowBytes > 0 {
		low := max(a.MinBytes, a.LowBytes)
		fmt.Fprintf(w, "Protected   %s always, %s if possible\n", bytesize.Text(a.MinBytes), bytesize.Text(low))
	}
	if a.CPUs != "" {
		exclusive := ""
		if a.Exclusive {
			exclusive = ", without other pods"
		}
		fmt.Fprintf(w, "CPUs        %s%s\n", a.CPUs, exclusive)
	}
	fmt.Fprintf(w, "CPU weight  %d\n", a.CPUWeight)
}

func why(pod podmove.PodReport) string {
	if pod.Reason != "" {
		return string(pod.Reason) + ": " + pod.Place()
	}
	return cmp.Or(pod.Place(), "-")
}
