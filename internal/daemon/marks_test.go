package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/fakenode"
)

// within waits until done.
func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.After(30 * time.Second); !done(); {
		select {
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestRunNodeStatus: with the flag the service keeps labels and condition on its Node, over its
// end. A start without a kubeconfig sends nothing.
func TestRunNodeStatus(t *testing.T) {
	t.Parallel()
	section := fakenode.Valid("kube-system")
	n := newNode(t, fakenode.Configuration(""))
	n.Write("/etc/kubernetes/node-partition.yaml", strings.TrimSuffix(section, "\n"))
	n.Generate(0)
	n.Write("/proc/sys/kernel/random/boot_id", "1b4e28ba-2fa1-11d2-883f-0016d3cca427")
	n.Partition("67108864")
	n.Serve(&fakenode.Runtime{})
	n.ServePods()
	n.RunKubelet("--hostname-override=" + fakeapi.Node)
	cluster := fakeapi.New(t, httptest.NewServer)
	cluster.Kubeconfig(t, filepath.Join(n.Root, "/var/lib/kubelet/kubeconfig"))
	cluster.SetLabel("kubernetes.io/hostname", fakeapi.Node, "kubelet")
	during := func(change func(*Options), during func(address string)) {
		t.Helper()
		o := Options{Options: n.Options(), Tick: time.Second, Version: "0.1.0", Log: slog.New(slog.DiscardHandler)}
		o.Listen = freeAddress(t)
		change(&o)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, o) }()
		during(o.Listen)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
	during(func(o *Options) { o.NodeStatus = true }, func(address string) {
		within(t, "the condition is written", func() bool { return cluster.Condition(kubeapi.Ready) != nil })
		within(t, "it is counted", func() bool {
			return strings.Contains(scraped(t.Context(), address), `nodepartition_node_status_writes_total{result="success"} 1`)
		})
	})
	labels, condition := cluster.Labels(), cluster.Condition(kubeapi.Ready)
	if labels[partition.VersionLabel] != "0.1.0" || len(labels[partition.SectionLabel]) != 12 || len(labels) != 3 ||
		condition == nil || !strings.HasSuffix(condition.Message, "; boot 1b4e28ba-2fa1-11d2-883f-0016d3cca427") {
		t.Errorf("%v, %+v", labels, condition)
	}
	cluster.Came()
	during(func(o *Options) { o.Eviction.Kubeconfig = node.KubeconfigNone }, func(address string) {
		within(t, "it runs", func() bool {
			return strings.Contains(scraped(t.Context(), address), `nodepartition_source_connected{source="runtime"} 1`)
		})
	})
	if came := cluster.Came(); len(came) > 0 {
		t.Errorf("%q without a kubeconfig", came)
	}
}

// TestFacts: the facts are of the partitions that are switched on, and there are none without one.
func TestFacts(t *testing.T) {
	t.Parallel()
	m, n, _, _ := built(t)
	m.follow(func() node.Followed {
		c, err := node.Load(m.options.Node, podmove.Auto)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}())
	f, on := m.facts()
	if !on || len(f.Inactive) > 0 || f.Passed || f.Unready == nil || f.Refused != nil || f.Hangs != nil || len(f.Section) != 64 {
		t.Errorf("%+v, %t before the first pass", f, on)
	}
	if err := os.RemoveAll(filepath.Join(n.Root, "/sys/fs/cgroup/kubepods.slice/kubepods-telemetry.slice")); err != nil {
		t.Fatal(err)
	}
	c := m.followed.now()
	c.Problem = errors.New("memoryLimit: lots")
	m.followed.set(c)
	if f, _ = m.facts(); len(f.Inactive) != 1 || f.Inactive[0] != "telemetry" || f.Refused == nil ||
		strings.Contains(f.Unready.Error(), "lots") || !strings.Contains(m.ready().Error(), "lots") {
		t.Errorf("%+v; want telemetry inactive, and a configuration that is refused", f)
	}
	off := switched(true)
	off.Partitions[0].Off = true
	m.apply(off)
	if f, on = m.facts(); on {
		t.Errorf("%+v with all partitions switched off", f)
	}
}

// TestPreparedNodeStatus: the kubelet waits for the first attempt to replace a value of the former
// boot.
func TestPreparedNodeStatus(t *testing.T) {
	t.Parallel()
	m, _, _, _ := built(t)
	if err := m.marked(); err != nil {
		t.Errorf("%v without the flag", err)
	}
	m.options.NodeStatus = true
	m.marks = m.newNodeStatus()
	if err := m.marked(); !errors.Is(err, errNodeStatus) || m.prepared() == nil {
		t.Errorf("%v before the first attempt", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.marks.Run(ctx) }() // there is no kubeconfig
	within(t, "it was tried", func() bool { return m.marked() == nil })
	cancel()
	<-ended
}

// TestRemovePartitionsNodeStatus: a daemon that ends with its partitions leaves no label and no
// resource behind, and one that is stopped does.
func TestRemovePartitionsNodeStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(*monitor)
		want v1.ConditionStatus
		text string
	}{
		"stopped":      {func(*monitor) {}, v1.ConditionUnknown, "has not ended"},
		"switched off": {func(m *monitor) { m.removePartitions(context.Background()) }, "", ""},
		"the kubelet's": {func(m *monitor) {
			m.cancel = func() {}
			m.yield("the kubelet makes it")
		}, "", ""},
	} {
		m, n, _, _ := built(t)
		m.options.NodeStatus, m.options.Version = true, "0.1.0"
		m.marks = m.newNodeStatus()
		m.apply(switched(false))
		n.RunKubelet("--hostname-override=" + fakeapi.Node)
		cluster := fakeapi.New(t, httptest.NewServer)
		cluster.Kubeconfig(t, filepath.Join(n.Root, "/var/lib/kubelet/kubeconfig"))
		cluster.SetNode("1", nil)
		m.marks.Follow([]string{"telemetry"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.marks.Run(ctx) }()
		within(t, "condition and resource are written", func() bool {
			return cluster.Condition(kubeapi.Ready) != nil && len(cluster.Capacity()) == 1
		})
		test.end(m)
		cancel()
		<-ended
		got := cluster.Condition(kubeapi.Ready)
		if (got == nil) != (test.want == "") || got != nil && (got.Status != test.want || !strings.Contains(got.Message, test.text)) ||
			(len(cluster.Labels()) == 0) != (got == nil) || (len(cluster.Capacity()) == 0) != (got == nil) {
			t.Errorf("%s: %+v, labels %v, resources %v; want %q, %s", name, got, cluster.Labels(), cluster.Capacity(), test.want, test.text)
		}
	}
}
