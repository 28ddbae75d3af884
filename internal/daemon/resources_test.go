package daemon

import (
	"context"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestFollowResources: the resources of types follow the configuration, and a type without a slice
// has one, too. At the end of the partitions nothing of ours stays on the Node.
func TestFollowResources(t *testing.T) {
	t.Parallel()
	m, n, _, _ := built(t)
	n.Serve(&fakenode.Runtime{})
	n.ServePods()
	n.RunKubelet("--hostname-override=" + fakeapi.Node)
	cluster := fakeapi.New(t, httptest.NewServer)
	cluster.Kubeconfig(t, filepath.Join(n.Root, "/var/lib/kubelet/kubeconfig"))
	cluster.SetNode("1", map[string]string{"cpu": "4", "theirs.workload.openshift.io/cores": "1"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.marks.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	const system = "systemPartition: {memoryLimit: 64Mi, cpuset: \"1\", namespaces: [kube-system]}\n"
	for _, step := range []struct {
		sections string
		want     map[string]int64
		types    []string // of the system partition
	}{
		{system + "workloadPartitions: {telemetry: {cpuset: \"0\"}, management: {partition: system}}\n", map[string]int64{"telemetry": 4000, "management": 4000}, []string{"management"}},
		{system + "workloadPartitions: {telemetry: {cpuset: \"0\", advertise: false}, management: {partition: system}}\n", map[string]int64{"management": 4000}, []string{"management"}},
		{system + "workloadPartitions: {telemetry: {cpuset: \"0\"}, batch: {}}\n", map[string]int64{"telemetry": 4000}, nil},
		{"", nil, nil},
	} {
		n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration(step.sections))
		n.Generate(0)
		c, err := node.Load(m.options.Node, podmove.Auto)
		if err != nil {
			t.Fatal(err)
		}
		m.follow(c)
		want := map[string]string{"cpu": "4", "theirs.workload.openshift.io/cores": "1"}
		for kind := range step.want {
			want[kind+".workload.openshift.io/cores"] = "4k"
		}
		deadline := time.After(20 * time.Second)
		for !maps.Equal(cluster.Capacity(), want) {
			select {
			case <-deadline:
				t.Fatalf("with %q the Node has %v; want %v", step.sections, cluster.Capacity(), want)
			case <-time.After(5 * time.Millisecond):
			}
		}
		for _, p := range n.status().Partitions {
			if p.Name == partition.System && !slices.Equal(p.Types, step.types) {
				t.Errorf("with %q the system partition has the types %q; want %q", step.sections, p.Types, step.types)
			}
		}
	}
}
