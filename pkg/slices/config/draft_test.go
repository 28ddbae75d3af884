package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/kubeletconfig"
)

// TestDraft: a draft is read for another node, without the kubelet's own settings, and as far as it
// is valid.
func TestDraft(t *testing.T) {
	t.Parallel()
	const memory = 8 << 30
	cpus := cpuset.New(0, 1, 2, 3)
	k := &kubeletconfig.Merged{
		// A kubelet whose settings do not fit.
		Kubelet: kubeletconfig.Kubelet{CgroupRoot: "/elsewhere", CPUManagerPolicy: "static", ReservedSystemCPUs: "3"},
		System:  kubeletconfig.Section{File: "partition.yaml"},
	}
	k.System.JSON = json.RawMessage(`{"memoryLimit":"4Gi","cpuset":"0-1","namespaces":["kube-system"],"memorylimit":"1"}`)
	c, err := Draft(k, Size{MemoryBytes: memory, CPUs: cpus})
	if err != nil || len(c.Partitions) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	warnings := c.Warnings
	if p := c.Partitions[0]; p.Limit != 4<<30 || !p.CPUs.Equals(cpuset.New(0, 1)) || !slices.Equal(p.Namespaces, []string{"kube-system"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "ignoring; known are ") {
		t.Errorf("warnings %q", warnings)
	}
	// A larger limit than the node's memory, and a CPU that it does not have.
	k.System.JSON = json.RawMessage(`{"memoryLimit":"8Gi","cpuset":"3-4","namespaces":["kube-system"]}`)
	c, err = Draft(k, Size{MemoryBytes: memory, CPUs: cpus})
	list := c.Partitions
	if len(Problems(err)) != 2 || len(list) != 1 || list[0].Limit != 8<<30 || !list[0].CPUs.IsEmpty() {
		t.Errorf("%+v, %v", list, err)
	}
}
