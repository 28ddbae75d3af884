package plan

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"nodepartition/tests/fakenode"
)

var update = flag.Bool("update", false, "write the golden file instead of comparing with it")

// karpenterFile has the fragments of TestWriteKarpenter.
const karpenterFile = "testdata/karpenter.txt"

// karpenter returns the fragment for a configuration, and for a node of a capacity.
func karpenter(t *testing.T, configuration, capacity string) (string, error) {
	t.Helper()
	n := fakenode.New(t, "")
	n.Write("/etc/kubelet.yaml", fakenode.Configuration(configuration))
	p, err := Read(t.Context(), Options{Node: n.Host(), Files: []string{"/etc/kubelet.yaml"}, Capacity: capacityOf(t, capacity)})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = WriteKarpenter(&out, p)
	return out.String(), err
}

// TestWriteKarpenter: the fragments for some configurations are as in the golden file. They are
// YAML.
func TestWriteKarpenter(t *testing.T) {
	t.Parallel()
	const size, section = "cpu=16,memory=32Gi,storage=100Gi", "systemPartition: {memoryLimit: 4Gi, namespaces: [kube-system]}\n"
	var got strings.Builder
	for _, test := range []struct{ name, configuration, capacity string }{
		{"Karpenter's defaults, and the partition", section, size},
		{"nothing to set", "", size},
		{"a partition without a limit", "systemPartition: {namespaces: [kube-system]}\n", size},
		{"reservations", section + "kubeReserved: {cpu: 500m, memory: 1Gi}\nsystemReserved: {cpu: 250m, memory: 512Mi, ephemeral-storage: 1Gi}\n", size},
		{"reservations of a node without storage", section + "kubeReserved: {memory: 1Gi}\nsystemReserved: {ephemeral-storage: 1Gi}\n", "cpu=2,memory=8Gi"},
		{"reserved CPUs", section + "kubeReserved: {cpu: '1', memory: 1Gi}\nreservedSystemCPUs: 0-3\n", size},
		{"other thresholds", section + "evictionHard: {memory.available: 500Mi, imagefs.available: 15%, containerfs.available: 9%}\n", size},
		{"the default thresholds, written out", section + "evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%}\n", size},
		{"two partitions", section + "workloadPartitions: {batch: {memoryLimit: 1500M, namespaces: [batch]}}\n", size},
	} {
		text, err := karpenter(t, test.configuration, test.capacity)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		var class nodeClass
		if err := yaml.UnmarshalStrict([]byte(text), &class); err != nil {
			t.Errorf("%s: %v:\n%s", test.name, err, text)
		}
		got.WriteString("-- " + test.name + " --\n" + text)
	}
	if *update {
		if err := os.WriteFile(karpenterFile, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(karpenterFile); err != nil || string(want) != got.String() {
		t.Errorf("%v: %s differs from what is written; go test ./internal/command/plan -update\n%s", err, karpenterFile, &got)
	}
}

// TestWriteKarpenterMembers: what members request is a part of Node Allocatable already.
func TestWriteKarpenterMembers(t *testing.T) {
	t.Parallel()
	p := sample(t)
	p.evictionHard = map[string]string{"memory.available": "1Gi"}
	var out bytes.Buffer
	if err := WriteKarpenter(&out, p); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"# systemReserved.memory: 3Gi of the configuration, and 3796Mi of the partition system.\n",
		"# That is memoryLimit, 4Gi, less the 300Mi that members request.\n",
		"# If the 3Gi include the partition already, write 3Gi.\n",
		"# Node Allocatable becomes cpu 12, memory 22828Mi.\n",
		"    systemReserved:\n      cpu: \"4\"\n      memory: 6868Mi\n",
		"    evictionHard:\n      memory.available: 1Gi\n      nodefs.available: 0%\n",
		"# warning about the configuration: systemPartition.cpuset: CPU 4 is not one of reservedSystemCPUs",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("want %q in\n%s", part, &out)
		}
	}
}

// TestWriteKarpenterRefused: a plan that a kubelet would not start with has no fragment.
func TestWriteKarpenterRefused(t *testing.T) {
	t.Parallel()
	if text, err := karpenter(t, "systemPartition: {memoryLimit: 7Gi, namespaces: [kube-system]}\nkubeReserved: {memory: 1Gi}\n", "cpu=2,memory=8Gi"); text != "" ||
		err == nil || !strings.Contains(err.Error(), "leaves nothing of the ") {
		t.Errorf("%v:\n%s", err, text)
	}
	if text, err := karpenter(t, "systemPartition: {memoryLimit: 9Gi, namespaces: [kube-system]}\n", "cpu=2,memory=8Gi"); text != "" || err != nil {
		t.Errorf("a section that is refused: %v:\n%s", err, text)
	}
}
