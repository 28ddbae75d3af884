package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"nodepartition/internal/daemon/marks"
	"nodepartition/internal/node"
	"nodepartition/internal/unitname"
)

// newMarks returns what keeps labels and conditions of the Node: those that are asked for.
func (m *monitor) newMarks() *marks.Keeper {
	o := marks.Options{
		API: m.api, Partition: unitname.First, Stopping: m.isStopping,
		Version: m.options.Version, Boot: bootID(m.options.Node.Proc),
		StateFile: m.options.Node.Path(filepath.Join(node.StateDir, "nodestatus.json")),
		Log:       m.log, Count: m.metrics.MarksWritten,
	}
	if m.options.NodeStatus {
		o.Facts = m.facts
	}
	if m.options.NodeCondition {
		o.Memory = m.partitions.systemPoll
	}
	return marks.New(o)
}

// record sends Events until ctx ends, if they are asked for.
func (c *cluster) record(ctx context.Context) error {
	if c == nil || c.recorder == nil {
		return nil
	}
	return c.recorder.Run(ctx)
}

// keepMarks keeps the labels and conditions that are asked for until ctx ends, and removes what an
// earlier run has written besides.
func (c *cluster) keepMarks(ctx context.Context) error {
	if c == nil {
		return nil
	}
	return c.marks.Run(ctx)
}

// removeMarks removes labels and conditions: there is not a partition of ours any more.
func (m *monitor) removeMarks(ctx context.Context) {
	if m.cluster != nil {
		m.cluster.marks.Remove(ctx)
	}
}

// errMarks means that the Node may still have the condition of a former boot.
var errMarks = errors.New("the condition of the Node was not written yet")

// marked returns an error before the first attempt to write the condition. The kubelet waits for
// that a while: a Node that is Ready is not to have the condition of a former boot.
func (m *monitor) marked() error {
	//guard: the kubelet waits until the condition of the former boot is replaced
	if m.options.NodeStatus && m.cluster != nil && !m.cluster.marks.Tried() {
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
		Section: m.configured.digest(), Hangs: m.alive(),
		Passed: !report.Time.IsZero(), Unready: m.unready(), Misplaced: report.Misplaced(),
	}
	if what, err := m.problem.now(); err != nil {
		f.Refused = fmt.Errorf("%s: %w", what, err)
	}
	for _, name := range on {
		if !m.exists(name) {
			f.Inactive = append(f.Inactive, name)
		}
	}
	return f, true
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
