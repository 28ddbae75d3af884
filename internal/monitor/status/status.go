// Package status reads the state of the partition from the node and the service, and writes it for
// people and for scripts. It changes nothing.
package status

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/candidates"
	"nodepartition/internal/monitor/control"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/monitor/trial"
	"nodepartition/internal/oneline"
	"nodepartition/internal/output"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// Status holds the output of the command status. Its JSON is for scripts: new versions add fields
// and do not change them.
type Status struct {
	// Partition is nil if there is none.
	Partition *Partition `json:"partition,omitempty"`
	// Problem is the reason why the configuration is not applied, or why there is no partition, and
	// what could not be read.
	Problem string `json:"problem,omitempty"`
	// Trial is absent if none is running.
	Trial *trial.Trial `json:"trial,omitempty"`
	// Service is "ready", or the reason why the service is not.
	Service string `json:"service"`
	// Eviction is nil if there is no partition.
	Eviction *Eviction `json:"eviction,omitempty"`
	podmove.Report
}

// Partition is the active partition. Amounts are in bytes.
type Partition struct {
	Namespaces  []string `json:"namespaces"`
	MemoryBytes uint64   `json:"memoryBytes"`
	// LimitBytes is absent without a limit.
	LimitBytes *uint64 `json:"limitBytes,omitempty"`
	// SwapBytes is in addition to MemoryBytes, and has no part in evictions.
	SwapBytes uint64 `json:"swapBytes,omitempty"`
	// MinBytes and LowBytes are its protected memory, memory.min and memory.low.
	MinBytes  uint64 `json:"minBytes,omitempty"`
	LowBytes  uint64 `json:"lowBytes,omitempty"`
	CPUs      string `json:"cpuset,omitempty"`
	CPUWeight uint64 `json:"cpuWeight"`
}

// Read reads the node and queries the service, if it is running.
func Read(ctx context.Context, o options.Options) (Status, error) {
	status := Status{Service: control.Ready(ctx, o.Listen)}
	config, err := node.LoadApplied(o.Mode, node.ReadOnly)
	switch {
	case err != nil:
		status.Problem = err.Error()
	case config.Problem != nil:
		status.Problem = config.Problem.Error()
	case config.NotApplied:
		status.Problem = node.NotApplied
	default:
		status.Problem = config.Desired.ManagedByKubelet
	}
	if status.Trial, err = trial.Read(); err != nil {
		status.Problem = strings.TrimPrefix(status.Problem+"; "+err.Error(), "; ")
	}
	fs := cgroupfs.FS(cgroupfs.Mount)
	path := unitname.CgroupPath(unitname.System.Slice())
	if limits, err := fs.Limits(path); err == nil {
		status.Partition = &Partition{
			Namespaces: config.Namespaces, CPUWeight: limits.CPUWeight,
			MinBytes: limits.Protection.Min, LowBytes: limits.Protection.Low,
		}
		if limits.MemoryMax != cgroupfs.Unlimited {
			status.Partition.LimitBytes = &limits.MemoryMax
		}
		if bytes, err := fs.MemoryCurrent(path); err == nil {
			status.Partition.MemoryBytes = bytes
		}
		if bytes, err := fs.SwapCurrent(path); err == nil {
			status.Partition.SwapBytes = bytes
		}
		if config.Desired != nil && config.Desired.Partition != nil {
			status.Partition.CPUs = config.Desired.Partition.CPUs.String()
		}
	}
	report, ranked, err := readPods(ctx, o, config.Config)
	if err != nil {
		return status, err
	}
	if status.Partition != nil {
		if status.Eviction, err = readEviction(fs, config.Thresholds.Config(o.Eviction), ranked); err != nil {
			// The places of the pods are shown nevertheless.
			status.Problem = strings.TrimPrefix(status.Problem+"; "+err.Error(), "; ")
		}
	}
	// Only the service knows which pods are being moved, and which moves have failed.
	known := control.Reasons(ctx, o.Listen)
	for i := range report.Pods {
		pod := &report.Pods[i]
		if said, ok := known[pod.UID]; ok && pod.Reason != "" && said.Reason != "" {
			pod.Reason, pod.Next = said.Reason, said.Next
		}
	}
	status.Report = report
	return status, nil
}

// readPods reads the node as a pass of the service does, and changes nothing. It returns a report
// of all pods, and the pods that an eviction can choose from.
func readPods(ctx context.Context, o options.Options, config podmove.Config) (podmove.Report, []evict.Pod, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kubelet := node.ListPods(ctx, o.PodsAPI)
	gatherer := podmove.Gatherer{
		Partition: unitname.System, Cgroups: cgroupfs.Mount, Kubelet: kubelet,
		Runtime: node.NewRuntime(o.Runtime, func(bool) {}),
	}
	state := podmove.Unavailable
	if node.Served(ctx, o.NRI) == nil {
		state = podmove.Working
	}
	snapshot, err := gatherer.Snapshot(ctx, config, state)
	if err != nil {
		return podmove.Report{}, nil, err
	}
	known, _ := kubelet.Pods()
	d := podmove.Decide(snapshot)
	// The JSON document has [] and not null.
	report := podmove.Report{Time: time.Now(), Pods: append([]podmove.PodReport{}, d.Pods...), Outlived: d.Outlived}
	return report, candidates.Inventory(snapshot.Pods, known, node.MemoryCapacity()), nil
}

// WriteJSON writes a status for scripts.
func WriteJSON(w io.Writer, status Status) error {
	return output.JSON(w, status)
}

// WriteTable writes a status for people.
func WriteTable(w io.Writer, status Status) error {
	if p := status.Partition; p != nil {
		fmt.Fprintf(w, "Partition   %s\n", unitname.System.Slice())
		fmt.Fprintf(w, "Namespaces  %s\n", strings.Join(p.Namespaces, ", "))
		limit := "no limit"
		if p.LimitBytes != nil {
			limit = bytesize.Text(*p.LimitBytes)
		}
		fmt.Fprintf(w, "Memory      %s of %s\n", bytesize.Text(p.MemoryBytes), limit)
		if p.SwapBytes > 0 {
			fmt.Fprintf(w, "Swap        %s\n", bytesize.Text(p.SwapBytes))
		}
		if p.MinBytes > 0 || p.LowBytes > 0 {
			low := max(p.MinBytes, p.LowBytes)
			fmt.Fprintf(w, "Protected   %s always, %s if possible\n", bytesize.Text(p.MinBytes), bytesize.Text(low))
		}
		if p.CPUs != "" {
			fmt.Fprintf(w, "CPUs        %s\n", p.CPUs)
		}
		fmt.Fprintf(w, "CPU weight  %d\n", p.CPUWeight)
	} else {
		fmt.Fprintf(w, "Partition   none: %s is not active\n", unitname.System.Slice())
	}
	if t := status.Trial; t != nil {
		fmt.Fprintf(
			w, "Trial       of %s until %s; partition-monitor keep makes it permanent\n",
			oneline.Terminal(t.From), t.Until.Format(trial.TimeOfDay),
		)
	}
	fmt.Fprintf(w, "Service     %s\n", oneline.Terminal(status.Service))
	if status.Problem != "" {
		fmt.Fprintf(w, "Problem     %s\n", oneline.Terminal(status.Problem))
	}
	for _, o := range status.Outlived {
		fmt.Fprintf(
			w, "Outlived    %s in %s: its processes have outlived their pod\n",
			oneline.Terminal(o.Scope), oneline.Terminal(o.Slice),
		)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tPOD\tQOS\tMEMBER\tPARTITION\tCONTAINERS\tMISPLACED\tWHY")
	for _, pod := range status.Pods {
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
	if err := table.Flush(); err != nil {
		return err
	}
	return writeEviction(w, status.Eviction)
}

func why(pod podmove.PodReport) string {
	switch {
	case pod.Reason != "":
		return string(pod.Reason) + ": " + pod.Next
	case pod.IdleCPUs != "":
		return "has CPUs " + pod.IdleCPUs + " exclusively, outside the partition's cpuset: they are idle"
	case pod.LiveMoved > 0:
		return "moved live, " + bytesize.Text(pod.OutsideBytes) + " stayed outside"
	}
	return "-"
}
