package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"node-partition.io/node-partition/tests/fakenode"
)

// TestTextfileEnds: the metrics for node_exporter go with the partitions, in whichever way these
// end, and stay when the service is stopped.
func TestTextfileEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(*monitor, *fakeNode)
		gone bool
	}{
		"stopped":      {func(m *monitor, _ *fakeNode) { m.stopEmptied(context.Background()) }, false},
		"switched off": {func(m *monitor, _ *fakeNode) { m.removePartitions(context.Background()) }, true},
		"the kubelet's": {func(m *monitor, _ *fakeNode) {
			m.cancel = func() {}
			m.yield("the kubelet makes it")
		}, true},
		"stopped while switched off and empty": {func(m *monitor, n *fakeNode) {
			n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(""))
			config := switched(true)
			config.Partitions[0].Off = true
			m.apply(config)
			m.stopEmptied(context.Background())
		}, true},
	} {
		m, n, _, _ := built(t)
		m.apply(switched(false))
		m.options.Textfile = t.TempDir()
		path := filepath.Join(m.options.Textfile, "node_partition.prom")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		test.end(m, n)
		m.removeTextfile()
		if _, err := os.Stat(path); os.IsNotExist(err) != test.gone {
			t.Errorf("%s: %v; want the file gone: %t", name, err, test.gone)
		}
	}
}

// TestRunTextfileOfFormer: what a run before has written is removed at a start without the option,
// and at one that finds the partition to be the kubelet's.
func TestRunTextfileOfFormer(t *testing.T) {
	t.Parallel()
	n := newNode(t, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates: {NodeSystemPartition: true}\nsystemPartition: {memoryLimit: 64Mi, namespaces: [kube-system]}\n")
	o := Options{Options: n.Options(), Log: slog.New(slog.DiscardHandler), Textfile: t.TempDir()}
	path := filepath.Join(o.Textfile, "node_partition.prom")
	record := filepath.Join(n.Root, "/run/node-partition/monitor/textfile")
	if err := errors.Join(os.MkdirAll(filepath.Dir(record), 0o755), os.WriteFile(record, []byte(o.Textfile), 0o600), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%v; want that the file is gone", err)
	}
}
