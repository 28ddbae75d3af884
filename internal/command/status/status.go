package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// Read reads the node and queries the service, if it is running.
func Read(ctx context.Context, o node.Options) (state.Status, error) {
	if told, ok := recorded(o.Node); ok {
		return told, nil
	}
	config, _ := node.Load(o.Node, o.Mode) // its Problem has the error
	found, pods, err := readPods(ctx, o, config.Policy())
	if ctx.Err() != nil {
		return state.Status{}, ctx.Err()
	}
	var told state.Status
	if o.Node.Answers() == nil {
		told = node.Service{Socket: o.Node.Path(node.ControlSocket), Listen: o.Listen}.LastReport(ctx)
	}
	lent := map[partition.Name]uint64{}
	for i := range told.Partitions {
		lent[told.Partitions[i].Name] = told.Partitions[i].LentBytes
	}
	status := node.ReadStatus(o.Node, o.Eviction, config, found, pods, lent)
	for i := range status.Partitions {
		p := &status.Partitions[i]
		if record, _, err := sizefile.Read(o.Node.Root, p.Name); err == nil {
			p.LastDay = record.Day()
		}
	}
	status.Service = service(ctx, o)
	switch {
	case errors.Is(err, host.ErrNotQueried):
		status.Problem = strings.TrimPrefix(status.Problem+"; "+err.Error(), "; ")
	case err != nil:
		status.PodsUnknown = err.Error()
	}
	add(&status, told)
	return status, nil
}

// add adds what only the service knows: which pods are being moved, which moves have failed, and
// the usage of the last minutes.
func add(s *state.Status, told state.Status) {
	known := map[string]report.Pod{}
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
		for i := range told.Partitions {
			m := &told.Partitions[i]
			if m.Name == p.Name && m.UsedPeakBytes > 0 {
				p.UsedPeakBytes = max(m.UsedPeakBytes, p.UsedBytes)
			}
		}
	}
}

// service returns whether the service is ready, or why it was not asked.
func service(ctx context.Context, o node.Options) string {
	if err := o.Node.Answers(); err != nil {
		return err.Error()
	}
	return (node.Service{Socket: o.Node.Path(node.ControlSocket), Listen: o.Listen}).Ready(ctx)
}

// readPods reads the node as a reconcile of the service does, and changes nothing. It returns a
// report of all pods, and the inventory of the partitions.
func readPods(ctx context.Context, o node.Options, config podmove.Policy) (report.Report, node.Pods, error) {
	none := report.Report{Time: time.Now(), Pods: []report.Pod{}}
	if err := o.Node.Answers(); err != nil {
		return none, noPods, fmt.Errorf("pods: %w", err)
	}
	pods := kubelet.Listed(ctx, o.PodsAPI)
	runtime := node.NewRuntime(o.Node, o.Runtime, node.AskSystemctl(o.Node), func(bool) {})
	defer runtime.Close() // Watch reads every other second
	gatherer := podmove.Gatherer{Cgroups: o.Node.Cgroups, Proc: o.Node.Proc, Kubelet: pods, Runtime: runtime}
	nri := podmove.Unavailable
	if node.Served(ctx, o.NRI) == nil {
		nri = podmove.Working
	}
	snapshot, err := gatherer.Snapshot(ctx, config, config.Rules(), nri)
	if err != nil {
		return none, noPods, err
	}
	known, _ := pods.Pods()
	d := podmove.Decide(snapshot)
	// The JSON document has [] and not null.
	found := report.Report{Time: time.Now(), Pods: append([]report.Pod{}, d.Pods...), Outlived: d.Outlived}
	capacity := node.MemoryCapacity(o.Node.Root)
	return found, func(name partition.Name) []evict.Pod {
		return node.Candidates(name, snapshot.Pods, known, capacity)
	}, nil
}

// noPods returns no pods: a node that is not asked has none to rank.
func noPods(partition.Name) []evict.Pod { return nil }

// Table returns what writes a status for people. Pods that have to do with no partition are in it
// if all is set, and else counted.
func Table(all bool) func(io.Writer, state.Status) error {
	return func(w io.Writer, status state.Status) error {
		errs := []error{writeFacts(w, &status)}
		for i := range status.Partitions {
			p := &status.Partitions[i]
			var tables []node.Table
			if status.PodsUnknown == "" {
				tables = append(tables, node.Members(&status, p))
			}
			if p.Eviction != nil {
				tables = append(tables, node.Evictions(p.Eviction))
			}
			for _, t := range tables {
				if len(status.Partitions) > 1 {
					t.Head[0] += " (" + string(p.Name) + ")"
				}
				errs = append(errs, writeTable(w, t))
			}
		}
		others, hidden := node.Others(&status), 0
		if !all {
			shown := slices.DeleteFunc(slices.Clone(others), func(pod report.Pod) bool { return pod.Misplaced == 0 })
			others, hidden = shown, len(others)-len(shown)
		}
		errs = append(errs, writeTable(w, node.PodsTable(others)))
		if hidden > 0 {
			_, err := fmt.Fprintf(w, "\n%d more on the node: --all\n", hidden)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

// writeFacts writes a verdict for each partition, with lines below it, and then the node's.
func writeFacts(w io.Writer, status *state.Status) error {
	var text strings.Builder
	styles := map[string]ansi.Style{}
	line := func(name, fact string) { fmt.Fprintf(&text, "%-14s%s\n", name+" ", fact) }
	for i := range status.Partitions {
		p := &status.Partitions[i]
		verdict := node.Verdict(status, p)
		line("● "+verdict.Name, verdict.Text)
		styles["● "+verdict.Name] = colours[verdict.Level]
		for j, f := range node.PartitionFacts(p) {
			line("  "+f.Name, f.Text)
			if j == 0 && p.LimitBytes != nil {
				line("", bar(p))
			}
		}
	}
	for _, f := range node.Facts(status) {
		line(f.Name, f.Text)
		if f.Level != node.Good {
			styles[f.Name] = colours[f.Level]
		}
	}
	return output.Write(w, text.String(), styles)
}

var colours = map[node.Level]ansi.Style{node.Good: output.Good, node.Caution: output.Caution, node.Alarm: output.Alarm}

// bar draws the memory of a partition with a limit: # is used now, - was used in the last minutes,
// : is the soft and ! the hard threshold.
func bar(p *state.Partition) string {
	const cells = 50
	limit := *p.LimitBytes
	at := func(bytes uint64) int { return int(cells * float64(min(bytes, limit)) / float64(max(limit, 1))) }
	used := strings.Repeat("#", at(p.UsedBytes))
	used += strings.Repeat("-", max(0, at(p.UsedPeakBytes)-len(used)))
	drawn := []byte(used + strings.Repeat(".", cells-len(used)))
	mark := func(threshold uint64, with byte) {
		if threshold > 0 {
			drawn[min(at(limit-min(threshold, limit)), cells-1)] = with
		}
	}
	if e := p.Eviction; e != nil && !e.NoLimit {
		mark(e.SoftBytes, ':')
		mark(e.HardBytes, '!')
	}
	return "[" + string(drawn) + "]"
}

// writeTable writes an empty line and a table, if it has rows.
func writeTable(w io.Writer, t node.Table) error {
	if len(t.Rows) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
