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

	"nodepartition/internal/daemon/recorder"
	"nodepartition/internal/node"
	"nodepartition/internal/node/candidates"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
)

// history holds the parts that keep the history.
type history struct {
	recorder *recorder.Recorder
	ring     *samples.Ring
}

// newHistory opens the history, if it is asked for. If the history cannot be opened, newHistory
// logs that and returns nil: the partition matters more.
func (m *monitor) newHistory() *history {
	if !m.options.History {
		return nil
	}
	ring, err := samples.Open(
		m.options.Node.Path(node.HistoryDir),
		func(err error) { m.log.Warn("the history is damaged", "error", err) },
	)
	if errors.Is(err, unix.EROFS) {
		// ReadWritePaths= of the unit leaves out a folder that was missing when the service started.
		err = fmt.Errorf(
			"%w; mkdir -m 0700 %s, and systemctl restart partition-monitor",
			err,
			filepath.Dir(node.HistoryDir),
		)
	}
	if err != nil {
		m.log.Error("no history is kept", "error", err)
		return nil
	}
	o := recorder.Options{
		Cgroups: m.options.Node.Cgroups, Boot: shortBootID(m.options.Node.Proc), Up: sinceBoot,
		Node: func() (samples.Node, error) { return node.Has(m.options.Node.Root) }, Placement: m.placement,
		Members: m.options.HistoryMembers,
		Warn:    m.complaints("a sample of the history is not complete, or is not written yet"),
	}
	return &history{recorder: recorder.New(o), ring: ring}
}

// recent returns what reads the last hours of the history, nil if none is kept.
func (m *monitor) recent() func(context.Context, time.Time) (samples.History, error) {
	if m.history == nil {
		return nil
	}
	return func(ctx context.Context, after time.Time) (samples.History, error) {
		return samples.ReadMinutes(ctx, m.options.Node.Path(node.HistoryDir), after)
	}
}

// placement returns where the pods of a partition are by the last pass, and false before the first.
func (m *monitor) placement(partition unitname.PartitionName) (candidates.Placement, bool) {
	report := m.table.Report()
	if report.Time.IsZero() {
		return candidates.Placement{}, false
	}
	known, _ := m.kubelet.Pods()
	return candidates.Place(
		partition, report.Pods, m.table.Pods(), known, node.MemoryCapacity(m.options.Node.Root),
	), true
}

// sinceBoot returns the seconds since the boot, by a clock that cannot be set, and that runs
// while the node is suspended. It returns 0 where the kernel does not tell.
func sinceBoot() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return uint64(now.Sec)
}

// bootID returns the kernel's boot ID, "" if it cannot be read.
func bootID(proc string) string {
	id, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// shortBootID returns the first eight digits of bootID.
func shortBootID(proc string) string {
	first, _, _ := strings.Cut(bootID(proc), "-")
	return first
}
