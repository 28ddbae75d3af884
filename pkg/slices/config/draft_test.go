package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/kubeletconfig"
)

// TestDraft: a draft is read for another node, without the kubelet's own settings, and as far as it
// is valid.
func TestDraft(t *testing.T) {
	t.Parallel()
	const memory = 8 << 30
	cpus := cpuset.New(0, 1, 2, 3)
	k := &kubeletconfig.Config{
		// A kubelet whose settings do not fit.
		Kubelet:     kubeletconfig.Kubelet{CgroupRoot: "/elsewhere", CPUManagerPolicy: "static", ReservedSystemCPUs: "3"},
		SectionFile: "partition.yaml",
	}
	if p, _, err := Draft(k, memory, cpus); p != nil || err != nil {
		t.Errorf("without a section: %+v, %v", p, err)
	}
	k.Section = json.RawMessage(`{"memoryLimit":"4Gi","cpuset":"0-1","namespaces":["kube-system"],"memorylimit":"1"}`)
	p, warnings, err := Draft(k, memory, cpus)
	if err != nil || p.MemoryLimit != 4<<30 || !p.CPUs.Equals(cpuset.New(0, 1)) || !slices.Equal(p.Namespaces, []string{"kube-system"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "is memoryLimit meant?") {
		t.Errorf("warnings %q", warnings)
	}
	if k.Kubelet.CgroupRoot == "" {
		t.Error("the configuration was changed")
	}
	// A larger limit than the node's memory, and a CPU that it does not have.
	k.Section = json.RawMessage(`{"memoryLimit":"8Gi","cpuset":"3-4","namespaces":["kube-system"]}`)
	p, _, err = Draft(k, memory, cpus)
	if len(Problems(err)) != 2 || p == nil || p.MemoryLimit != 8<<30 || !p.CPUs.IsEmpty() {
		t.Errorf("%+v, %v", p, err)
	}
	k.Section = json.RawMessage(`[]`)
	if p, _, err = Draft(k, memory, cpus); p != nil || err == nil {
		t.Errorf("%+v, %v; want an error", p, err)
	}
}
