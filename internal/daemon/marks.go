package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cluster"
)

// newNodeStatus returns the keeper of the Node's labels, condition and resources. It keeps those
// that the options and the workload types ask for.
func (m *monitor) newNodeStatus() *cluster.Keeper {
	o := cluster.KeeperOptions{
		API: m.api, Stopping: m.isStopping,
		Version: m.options.Version, Boot: bootID(m.options.Node.Proc), JustBooted: justBooted(),
		Root: m.options.Node.Root, Log: m.log, Count: m.metrics.NodeStatusWritten,
	}
	if m.options.NodeStatus {
		o.Facts = m.facts
	}
	return cluster.NewKeeper(o)
}

// bootID returns the kernel's boot ID, "" if it cannot be read.
func bootID(proc string) string {
	id, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// justBooted reports whether the node was booted in the last ten minutes.
func justBooted() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) == nil && time.Duration(info.Uptime)*time.Second < 10*time.Minute
}

// record sends Events until ctx ends, if they are asked for.
func (m *monitor) record(ctx context.Context) error {
	if m.recorder == nil {
		return nil
	}
	return m.recorder.Run(ctx)
}

// keepNodeStatus keeps what is asked for on the Node until ctx ends, and removes what an earlier
// run has applied besides.
func (m *monitor) keepNodeStatus(ctx context.Context) error {
	if !m.hasCluster() {
		return nil
	}
	return m.marks.Run(ctx)
}

// leaveNode removes labels, condition and resources from the Node: there is not a partition of
// ours any more. While the API server does not answer, it takes five seconds after the writes that
// are under way, of fifteen seconds each. The metrics for node_exporter go at the end.
func (m *monitor) leaveNode(ctx context.Context) {
	m.listening.ended.Store(true)
	m.marks.Remove(ctx)
}

// errNodeStatus means that the Node may still have the condition of a former boot.
var errNodeStatus = errors.New("the condition of the Node was not written yet")

// marked returns an error before the first attempt to write the condition. The kubelet waits for
// that a while: a Node that is Ready is not to have the condition of a former boot.
func (m *monitor) marked() error {
	//guard: the kubelet waits until the condition of the former boot is replaced
	if m.options.NodeStatus && m.hasCluster() && !m.marks.Tried() {
		return errNodeStatus
	}
	return nil
}

// facts returns what the labels and the condition follow from, and false without a partition that
// is switched on.
func (m *monitor) facts() (cluster.Facts, bool) {
	on := m.on()
	if len(on) == 0 {
		return cluster.Facts{}, false
	}
	report, c := m.table.Report(), m.followed.now()
	f := cluster.Facts{
		Section: c.Section, Hangs: m.alive(),
		Passed: !report.Time.IsZero(), Unready: m.unready(), Misplaced: report.Misplaced(),
	}
	if c.Problem != nil {
		f.Refused = fmt.Errorf("%s: %w", meaning(c), c.Problem)
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
