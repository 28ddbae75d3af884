package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"

	"node-partition.io/node-partition/internal/host"
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
	status := node.ReadStatus(o.Node, o.Eviction, config, found, pods)
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
	if o.Node.Answers() == nil {
		add(&status, node.Service{Socket: o.Node.Path(node.ControlSocket), Listen: o.Listen}.LastReport(ctx))
	}
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
	found := report.Report{Time: time.Now(), Pods: append([]report.Pod{}, d.Pods...), Outlived: d.Outlived}
	capacity := node.MemoryCapacity(o.Node.Root)
	return found, func(name partition.Name) []evict.Pod {
		return node.Candidates(name, snapshot.Pods, known, capacity)
	}, nil
}

// noPods returns no pods: a node that is not asked has none to rank.
func noPods(partition.Name) []evict.Pod { return nil }

// WriteJSON writes a status for scripts.
func WriteJSON(w io.Writer, status state.Status) error {
	return output.JSON(w, status)
}

// WriteTable writes a status for people.
func WriteTable(w io.Writer, status state.Status) error {
	var facts []node.Fact
	for i := range status.Partitions {
		facts = append(facts, node.PartitionFacts(&status.Partitions[i])...)
	}
	errs := []error{writeFacts(w, append(facts, node.Facts(&status)...))}
	for i := range status.Partitions {
		p := &status.Partitions[i]
		if p.Eviction == nil {
			continue
		}
		facts := node.EvictionFacts(p)
		if len(status.Partitions) > 1 {
			facts[0].Name += " of " + string(p.Name)
		}
		_, err := fmt.Fprintln(w)
		errs = append(errs, err, writeFacts(w, facts))
		for _, table := range []node.Table{node.Order(p.Eviction), node.Evictions(p.Eviction)} {
			if len(table.Rows) > 0 {
				errs = append(errs, writeTable(w, table))
			}
		}
	}
	if status.PodsUnknown == "" {
		errs = append(errs, writeTable(w, node.PodsTable(status.Pods)))
	}
	return errors.Join(errs...)
}

// writeFacts writes a line for each fact.
func writeFacts(w io.Writer, facts []node.Fact) error {
	const margin = 12 // behind the name of what a line shows
	var text strings.Builder
	styles := map[string]ansi.Style{}
	for _, f := range facts {
		fmt.Fprintf(&text, "%-*s%s\n", margin, f.Name+" ", f.Text)
		switch f.Level {
		case node.Alarm:
			styles[f.Name] = output.Alarm
		case node.Caution:
			styles[f.Name] = output.Caution
		}
	}
	return output.Write(w, text.String(), margin, styles)
}

// writeTable writes an empty line and a table.
func writeTable(w io.Writer, t node.Table) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
