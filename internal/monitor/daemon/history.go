package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/candidates"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/monitor/recorder"
	"nodepartition/internal/samples"
	"nodepartition/pkg/evict"
)

// history holds the parts that keep the history.
type history struct {
	recorder *recorder.Recorder
	ring     *samples.Ring
}

// events returns the recorder, nil if no history is kept.
func (h *history) events() *recorder.Recorder {
	if h == nil {
		return nil
	}
	return h.recorder
}

// newHistory opens the history, if it is asked for. A history that cannot be opened is no reason to
// leave the partition alone: it returns nil then.
func (m *monitor) newHistory() *history {
	if !m.options.History {
		return nil
	}
	ring, err := samples.Open(recorder.Dir, func(err error) { m.log.Warn("the history is damaged", "error", err) })
	if errors.Is(err, unix.EROFS) {
		// ReadWritePaths= of the unit leaves out a folder that was missing when the service started.
		err = fmt.Errorf("%w; mkdir -m 0700 %s, and systemctl restart partition-monitor", err, filepath.Dir(recorder.Dir))
	}
	if err != nil {
		m.log.Error("no history is kept", "error", err)
		return nil
	}
	o := recorder.Options{
		Cgroups: cgroupfs.Mount, Boot: bootID(), Up: sinceBoot,
		Node: node.Has, Placement: m.placement,
		Peak:   func() evict.Peak { return m.evictor.TakePeak() },
		Report: func() evict.Report { return m.evictor.Report() },
		Warn:   m.complaints("a sample of the history is not complete, or is not written yet"),
	}
	if m.options.HistoryMembers {
		o.Pods = func() []evict.Pod { return m.evictor.Pods() }
	}
	return &history{recorder: recorder.New(o), ring: ring}
}

// placement returns where the pods are by the last pass, and false before the first.
func (m *monitor) placement() (candidates.Placement, bool) {
	report := m.reconciler.Report()
	if report.Time.IsZero() {
		return candidates.Placement{}, false
	}
	known, _ := m.kubelet.Pods()
	return candidates.Place(report.Pods, m.table.Pods(), known, node.MemoryCapacity()), true
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

// bootID returns the first eight digits of the kernel's boot ID, "" if it cannot be read.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(id), "-")
	return strings.TrimSpace(first)
}
