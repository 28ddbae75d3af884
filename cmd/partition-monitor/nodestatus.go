package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/oneline"
	"nodepartition/internal/podsapi"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show which pods are in which partition, and why not in the other; asks the node itself, so that it works without the service",
		Flags: append(append(socketFlags(), evictionFlags()...), &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "table or json", Value: "table"}),
		Action: func(c *cli.Context) error {
			likeService(c, cgroupfs.Mount, "/proc")
			write := writeTable
			switch c.String("output") {
			case "table":
			case "json":
				write = writeJSON
			default:
				return usageError{fmt.Errorf("--output=%s: want table or json", c.String("output"))}
			}
			mode, err := moveMode(c)
			if err != nil {
				return err
			}
			eviction, err := readEvictionFlags(c)
			if err != nil {
				return err
			}
			status, err := readStatus(c.Context, c, mode, eviction)
			if err != nil {
				return err
			}
			return write(c.App.Writer, status)
		},
	}
}

// nodeStatus is what status shows. Its JSON is for scripts: fields are added, not changed.
type nodeStatus struct {
	// Partition is nil where there is none.
	Partition *partitionStatus `json:"partition,omitempty"`
	// Problem is why the configuration is not followed, or why there is no partition.
	Problem string `json:"problem,omitempty"`
	// Trial is absent where none runs.
	Trial *trial `json:"trial,omitempty"`
	// Service says whether the service is ready, or why not.
	Service string `json:"service"`
	// Eviction is nil where there is no partition.
	Eviction *evictionStatus `json:"eviction,omitempty"`
	podmove.Report
}

type partitionStatus struct {
	Namespaces  []string `json:"namespaces"`
	MemoryBytes uint64   `json:"memoryBytes"`
	// LimitBytes is absent without a limit.
	LimitBytes *uint64 `json:"limitBytes,omitempty"`
	CPUs       string  `json:"cpuset,omitempty"`
	CPUWeight  uint64  `json:"cpuWeight"`
}

// podsAPITimeout is how long status waits for the kubelet's list of pods.
const podsAPITimeout = 2 * time.Second

func readStatus(ctx context.Context, c *cli.Context, mode podmove.Mode, eviction evictionSettings) (nodeStatus, error) {
	status := nodeStatus{Service: askService(ctx, c.String(flagListen))}
	config, err := loadApplied(mode, membersFile, readOnly)
	switch {
	case err != nil:
		status.Problem = err.Error()
	case config.problem != nil:
		status.Problem = config.problem.Error()
	case config.unapplied:
		status.Problem = unapplied
	default:
		status.Problem = config.asked.Yields
	}
	if status.Trial, err = readTrial(); err != nil {
		status.Problem = strings.TrimPrefix(status.Problem+"; "+err.Error(), "; ")
	}
	fs := cgroupfs.FS(cgroupfs.Mount)
	path := unitname.CgroupPath(unitname.System.Slice())
	if limits, err := fs.Limits(path); err == nil {
		status.Partition = &partitionStatus{Namespaces: config.Namespaces, CPUWeight: limits.CPUWeight}
		if limits.MemoryMax != cgroupfs.Unlimited {
			status.Partition.LimitBytes = &limits.MemoryMax
		}
		if bytes, err := fs.MemoryCurrent(path); err == nil {
			status.Partition.MemoryBytes = bytes
		}
		if config.asked != nil && config.asked.Partition != nil {
			status.Partition.CPUs = config.asked.Partition.CPUs.String()
		}
	}
	pods, candidates, err := readPods(ctx, c, config.Config)
	if err != nil {
		return status, err
	}
	if status.Partition != nil {
		if status.Eviction, err = readEviction(fs, eviction.config(config.thresholds), candidates); err != nil {
			// Where the pods are is worth showing all the same.
			status.Problem = strings.TrimPrefix(status.Problem+"; "+err.Error(), "; ")
		}
	}
	// What a look at the node cannot tell: what is being moved, and what failed.
	known := reasons(ctx, c.String(flagListen))
	for i := range pods {
		if said, ok := known[pods[i].UID]; ok && pods[i].Reason != "" && said.Reason != "" {
			pods[i].Reason, pods[i].Next = said.Reason, said.Next
		}
	}
	status.Report = podmove.Report{Time: time.Now(), Pods: append([]podmove.PodReport{}, pods...)} // [] and not null
	return status, nil
}

// readPods looks at the node as a pass of the service does, and does nothing about it.
func readPods(ctx context.Context, c *cli.Context, config podmove.Config) ([]podmove.PodReport, []evict.Pod, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kubelet := listPods(ctx, c.String(flagPods))
	gatherer := podmove.Gatherer{
		Partition: unitname.System, Cgroups: cgroupfs.Mount, Kubelet: kubelet,
		Runtime: &runtimeClient{endpoint: c.String(flagRuntime), kubelets: kubeletsEndpoint, connected: func(bool) {}},
	}
	state := podmove.Unavailable
	if served(ctx, c.String(flagNRI)) == nil {
		state = podmove.Working
	}
	snapshot, err := gatherer.Snapshot(ctx, config, state)
	if err != nil {
		return nil, nil, err
	}
	known, _ := kubelet.Pods()
	return podmove.Decide(snapshot).Pods, inventory(snapshot.Pods, known, memoryCapacity()), nil
}

// listPods returns the kubelet's pods, none where it does not tell.
func listPods(ctx context.Context, socket string) *podsapi.Watcher {
	told := make(chan struct{}, 1)
	watcher := podsapi.NewWatcher(socket, func() {}, func(bool) {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	if !isSocket(socket) {
		return watcher
	}
	go func() { _ = watcher.Run(ctx, func(error) {}) }() // it ends with ctx
	select {
	case <-told:
	case <-ctx.Done():
	case <-time.After(podsAPITimeout):
	}
	return watcher
}

// reasons asks the service why pods are not where they belong, by UID. It returns nothing where the service does not run.
func reasons(ctx context.Context, listen string) map[string]podmove.PodReport {
	status, text, err := get(ctx, listen, "/report")
	var report podmove.Report
	if err != nil || status != http.StatusOK || json.Unmarshal(text, &report) != nil {
		return nil
	}
	known := map[string]podmove.PodReport{}
	for _, pod := range report.Pods {
		known[pod.UID] = pod
	}
	return known
}

// maxAnswer bounds what the service may answer: a thousand pods are half a megabyte.
const maxAnswer = 8 << 20

// errNoService says that the service listens nowhere.
var errNoService = errors.New("not asked, it serves no health")

// get asks the service at the address that it was told to listen on.
func get(ctx context.Context, listen, path string) (status int, text []byte, err error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return 0, nil, errNoService
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		listen = net.JoinHostPort("127.0.0.1", port)
	}
	ctx, cancel := context.WithTimeout(ctx, podsAPITimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listen+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	return answer.StatusCode, text, err
}

// askService asks the service whether it is ready.
func askService(ctx context.Context, listen string) string {
	status, text, err := get(ctx, listen, "/readyz")
	var refused *net.OpError
	switch {
	case errors.As(err, &refused):
		return "not running (" + refused.Error() + "); see systemctl status partition-monitor.service"
	case err != nil:
		return err.Error()
	case status == http.StatusOK:
		return "ready"
	}
	return "not ready: " + strings.TrimSpace(string(text))
}

func writeJSON(w io.Writer, status nodeStatus) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(status)
}

func writeTable(w io.Writer, status nodeStatus) error {
	if p := status.Partition; p != nil {
		fmt.Fprintf(w, "Partition   %s\n", unitname.System.Slice())
		fmt.Fprintf(w, "Namespaces  %s\n", strings.Join(p.Namespaces, ", "))
		limit := "no limit"
		if p.LimitBytes != nil {
			limit = bytesize.Text(*p.LimitBytes)
		}
		fmt.Fprintf(w, "Memory      %s of %s\n", bytesize.Text(p.MemoryBytes), limit)
		if p.CPUs != "" {
			fmt.Fprintf(w, "CPUs        %s\n", p.CPUs)
		}
		fmt.Fprintf(w, "CPU weight  %d\n", p.CPUWeight)
	} else {
		fmt.Fprintf(w, "Partition   none: %s does not run\n", unitname.System.Slice())
	}
	if t := status.Trial; t != nil {
		fmt.Fprintf(w, "Trial       of %s until %s; partition-monitor keep makes it permanent\n", oneline.Terminal(t.From), t.Until.Format(timeOfDay))
	}
	fmt.Fprintf(w, "Service     %s\n", oneline.Terminal(status.Service))
	if status.Problem != "" {
		fmt.Fprintf(w, "Problem     %s\n", oneline.Terminal(status.Problem))
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tPOD\tQOS\tMEMBER\tPARTITION\tCONTAINERS\tMISPLACED\tWHY")
	for _, pod := range status.Pods {
		member := "no"
		if pod.Member {
			member = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", oneline.Terminal(pod.Namespace), oneline.Terminal(pod.Name), pod.QoS, member, pod.Partition(),
			pod.Containers, pod.Misplaced, oneline.Terminal(why(pod)))
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
		return "has CPUs " + pod.IdleCPUs + " alone, which are not the partition's: they idle"
	case pod.LiveMoved > 0:
		return "moved live, " + bytesize.Text(pod.OutsideBytes) + " stayed outside"
	}
	return "-"
}
