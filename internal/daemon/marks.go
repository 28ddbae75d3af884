package daemon

import (
	"context"
	"errors"
	"path/filepath"

	"nodepartition/internal/daemon/marks"
	"nodepartition/internal/node"
	"nodepartition/pkg/podmove"
)

// newMarks returns what keeps the labels and the condition SystemPartitionReady of the Node.
func (m *monitor) newMarks() *marks.Keeper {
	return marks.New(marks.Options{
		API: m.api, Facts: m.facts, Stopping: m.isStopping,
		Version: m.options.Version, Boot: bootID(m.options.Node.Proc),
		StateFile: m.options.Node.Path(filepath.Join(filepath.Dir(node.MembersFile), "nodestatus.json")),
		Log:       m.log, Count: m.metrics.MarksWritten,
	})
}

// keepMarks keeps the labels and the condition until ctx ends, if they are asked for. Otherwise it
// removes what an earlier run has written.
func (c *cluster) keepMarks(ctx context.Context, asked bool) error {
	switch {
	case c == nil:
		return nil
	case asked:
		return c.marks.Run(ctx)
	}
	return c.marks.Clear(ctx)
}

// writesMarks reports whether there are labels and a condition to keep.
func (m *monitor) writesMarks() bool { return m.options.NodeStatus && m.cluster != nil }

// removeMarks removes the labels and the condition: there is not a partition of ours any more.
func (m *monitor) removeMarks(ctx context.Context) {
	if m.writesMarks() {
		m.cluster.marks.Remove(ctx)
	}
}

// errMarks means that the Node may still have the condition of a former boot.
var errMarks = errors.New("the condition of the Node was not written yet")

// marked returns an error before the first attempt to write the condition. The kubelet waits for
// that a while: a Node that is Ready is not to have the condition of a former boot.
func (m *monitor) marked() error {
	if m.writesMarks() && !m.cluster.marks.Tried() {
		return errMarks
	}
	return nil
}

// facts returns what the labels and the condition follow from, and false without a partition that
// is switched on.
func (m *monitor) facts() (marks.Facts, bool) {
	on := m.on()
	if len(on) == 0 {
		return marks.Facts{}, false
	}
	report := m.table.Report()
	f := marks.Facts{
		Section: m.configured.digest(), Hangs: m.alive(), Refused: m.problem.get(),
		Passed: !report.Time.IsZero(), Unready: m.unready(), Misplaced: misplaced(report.Pods),
	}
	for _, name := range on {
		if !m.exists(name) {
			f.Inactive = append(f.Inactive, name)
		}
	}
	return f, true
}

// misplaced counts the pods that are not where they belong. A pod that is being deleted is not
// moved.
func misplaced(pods []podmove.PodReport) int {
	count := 0
	for i := range pods {
		if pods[i].Misplaced > 0 && pods[i].Reason != podmove.ReasonTerminating {
			count++
		}
	}
	return count
}

// isStopping reports whether the node is being shut down. Without a connection to systemd it is not
// known, and there is no time to wait for one.
func (m *monitor) isStopping(ctx context.Context) bool {
	if !m.units.Connected() {
		return false
	}
	stopping, err := m.units.Stopping(ctx)
	return err == nil && stopping
}
