package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestPressure: the kubelet's threshold is that of its files when it connected. An edit counts when
// it connects again, and a mistake does not.
func TestPressure(t *testing.T) {
	m, n, _, _ := built(t)
	n.RunKubelet("--config=/var/lib/kubelet/config.yaml")
	for text, want := range map[string]int64{"evictionSoft: {memory.available: 1Gi}": 1 << 30, "evictionHard: {memory.available: 200Mi}": 200 << 20} {
		for _, file := range []string{text, "maxPods: [", "evictionSoft: {memory.available: lots}", "evictionHard: {memory.available: lots}"} {
			n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(twoSections)+file+"\n")
			m.notePressure()
			if got := m.pressure.Load(); got == nil || *got != want {
				t.Errorf("%s, then %s: %v; want %d", text, file, got, want)
			}
		}
		n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(twoSections)+"evictionHard: {memory.available: 50Mi}\n")
		if m.reload(); *m.pressure.Load() != want {
			t.Errorf("an edit counts before the kubelet has read it: %d", *m.pressure.Load())
		}
	}
}

// TestSpareKnown: what the node can spare is known while the kubelet tells its pods, and its
// threshold is known.
func TestSpareKnown(t *testing.T) {
	m, n, _, _ := built(t)
	n.ServePods()
	n.Write("/proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nInactive(file): 0 kB", 16000<<10, 4000<<10))
	for file, text := range map[string]string{"memory.current": "0", "memory.max": "max", "memory.stat": "inactive_file 0\nactive_file 0\nslab_reclaimable 0"} {
		n.Write(filepath.Join(cgroups.Mount, partition.CgroupPath("kubepods.slice"), file), text)
	}
	known := func(what, unknown string) {
		t.Helper()
		spare, err := m.spare(partition.System)()
		if unknown == "" && (err != nil || spare.Bytes>>20 != 4000-100-800) || unknown != "" && (err == nil || !strings.Contains(err.Error(), unknown)) {
			t.Errorf("%s: %+v, %v; want %q", what, spare, err, unknown)
		}
	}
	silent := m.kubelet
	m.pressure.Store(new(int64(100 << 20)))
	known("the kubelet tells no pods", "does not tell its pods")
	m.kubelet = kubelet.Listed(t.Context(), n.Host().Path(kubelet.PodsSocket))
	known("all is known", "")
	m.kubelet = gone(t, n.Host().Path(kubelet.PodsSocket))
	known("the kubelet does not run", "")
	n.RunKubelet("--config=/var/lib/kubelet/config.yaml")
	known("the kubelet runs, and tells no pods", "does not tell its pods")
	m.kubelet = kubelet.Listed(t.Context(), n.Host().Path(kubelet.PodsSocket))
	n.Write("/proc/meminfo", "MemTotal: 1 kB")
	known("the memory cannot be read", "MemFree")
	m.pressure.Store(nil) // the kubelet has connected again
	n.Write("/var/lib/kubelet/config.yaml", "maxPods: [")
	n.Write("/proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nInactive(file): 0 kB", 16000<<10, 4000<<10))
	m.afterTick()
	known("the threshold is not known", "below which the kubelet evicts")
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(twoSections))
	m.afterTick()
	known("the file is repaired", "")
	m.kubelet = silent
}

// gone returns the Watcher of a kubelet that has told its pods, and is away.
func gone(t *testing.T, socket string) *kubelet.Watcher {
	t.Helper()
	changed := make(chan bool, 2)
	w := kubelet.NewWatcher(socket, func() {}, func(up bool) { changed <- up })
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, func(error) {}) }()
	if !<-changed || !w.Answers() {
		t.Fatal("the kubelet does not answer")
	}
	end()
	<-ended
	if w.Answers() {
		t.Fatal("the kubelet answers")
	}
	return w
}
