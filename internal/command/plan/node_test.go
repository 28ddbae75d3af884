package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"node-partition.io/node-partition/internal/budget"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/generator/golden"
)

// made returns the plan of a node as it is written in JSON. The options lack the node and the
// socket.
func made(t *testing.T, n *fakenode.Node, o Options) Plan {
	t.Helper()
	o.Node, o.PodsAPI = n.Host(), n.Host().Path(kubelet.PodsSocket)
	read, err := Read(t.Context(), o)
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	var text bytes.Buffer
	p := Plan{}
	if err := errors.Join(output.JSON(&text, read), json.Unmarshal(text.Bytes(), &p)); err != nil {
		t.Fatalf("%v:\n%s", err, &text)
	}
	p.Invalid = read.Invalid
	return p
}

// capacityOf returns the capacity of a flag.
func capacityOf(t *testing.T, text string) *node.Capacity {
	t.Helper()
	c, err := ParseCapacity(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// warns reports whether a warning begins with a text.
func warns(p Plan, text string) bool {
	for _, w := range p.Warnings {
		if strings.HasPrefix(w, text) {
			return true
		}
	}
	return false
}

// TestPlanNode: the plan of a node has the kubelet's configuration with its drop-ins, the flags of
// the running kubelet over them, the pods of the partition, and the memory of the slices.
func TestPlanNode(t *testing.T) {
	t.Parallel()
	const gibi = 1 << 30
	// The file of the well-known path is not the one of this kubelet. The section is read from it.
	n := fakenode.New(t, fakenode.Valid("kube-system")+"kubeReserved: {memory: 7Gi}\n")
	n.Write("/etc/k.yaml", fakenode.Configuration("kubeReserved: {memory: 16Mi}\nsystemReserved: {memory: 32Mi}\n"))
	n.Write("/etc/k.d/1.conf", fakenode.Configuration("evictionHard: {nodefs.available: 1Mi}\nsystemReserved: {ephemeral-storage: 1Mi}\n"))
	n.Partition("67108864")
	n.Write(fakenode.SystemCgroup+"/memory.peak", "2097152")
	for name, text := range map[string]string{"memory.current": "10485760", "memory.stat": "inactive_file 1048576", "cpu.stat": "usage_usec 1"} {
		n.Write("/sys/fs/cgroup/system.slice/"+name, text)
	}
	ended := fakenode.PodOf("kube-system", "job", "1Gi", "1Gi")
	ended.Status.Phase = v1.PodSucceeded
	dns, proxy := fakenode.PodOf("kube-system", "dns", "70Mi", "170Mi"), fakenode.PodOf("kube-system", "proxy", "10Mi", "")
	dns.Status.QOSClass, proxy.Status.QOSClass = v1.PodQOSBurstable, v1.PodQOSBurstable
	n.ServeGRPC("/var/lib/kubelet/pods-api/pods-api.sock", func(s *grpc.Server) {
		podsv1alpha1.RegisterPodsServer(s, fakenode.Kubelet{Pods: []*v1.Pod{
			dns, proxy, fakenode.PodOf("web", "shop", "1Gi", "1Gi"), ended,
		}})
	})
	// One of them is not in the partition yet, and page cache does not count.
	n.Write("/sys/fs/cgroup/kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-poduid_dns.slice/memory.current", "41943040")
	outside := "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_proxy.slice/"
	n.Write(outside+"memory.current", "52428800")
	n.Write(outside+"memory.stat", "inactive_file 10485760")
	n.RunKubelet("--config=/etc/k.yaml", "--config-dir", "/etc/k.d", "--kube_reserved", "memory=64Mi")
	p := made(t, n, Options{})
	if p.Invalid != nil {
		t.Errorf("%v", p.Invalid)
	}
	// The flag replaces kubeReserved; 100Mi is the default of a main file without evictionHard, which
	// a drop-in does not remove.
	if p.KubeReserved.MemoryBytes != 64<<20 || p.SystemReserved.MemoryBytes != 32<<20 || p.EvictionThreshold.MemoryBytes != 100<<20 ||
		p.Allocatable.MemoryBytes > p.Capacity.MemoryBytes-196<<20 || p.Remainder.MemoryBytes != p.Allocatable.MemoryBytes-64<<20 {
		t.Errorf("%+v", p.Budget)
	}
	if s := p.EvictionThreshold.StorageBytes; s == nil || *s != 1<<20 || *p.SystemReserved.StorageBytes != 1<<20 {
		t.Errorf("storage: %+v", p.EvictionThreshold)
	}
	if p.Configuration.KubeletPID == 0 || strings.Join(p.Configuration.Files, " ") != "/etc/k.yaml /etc/k.d/1.conf /var/lib/kubelet/config.yaml" {
		t.Errorf("%+v", p.Configuration)
	}
	if want := (budget.Members{Pods: 2, MemoryRequestBytes: 80 << 20, MemoryLimitBytes: 170 << 20, Unlimited: 1, MemoryUsedBytes: 80 << 20}); p.Partitions[0].Members == nil || *p.Partitions[0].Members != want {
		t.Errorf("members %+v; want %+v", p.Partitions[0].Members, want)
	}
	if len(p.Usage) != 2 || p.Usage[0].PeakBytes == nil || *p.Usage[0].PeakBytes != 2<<20 || p.Usage[1].WorkingSetBytes != 9<<20 || p.Usage[1].PeakBytes != nil {
		t.Errorf("usage %+v", p.Usage)
	}
	for _, want := range []string{"systemPartition.memoryLimit of 64Mi is below the requests of its 2 pods, 80Mi", "systemPartition.memoryLimit of 64Mi is below the sum of the memory limits", "systemPartition.memoryLimit of 64Mi, with a threshold of 32Mi, is below what its 2 pods use now, 80Mi"} {
		if !warns(p, want) {
			t.Errorf("want %q in %q", want, p.Warnings)
		}
	}
	// A flag without a value overrides the files, too, and another one removes the threshold.
	n.RunKubelet("--config=/etc/k.yaml", "--eviction-hard=", "--reserved-cpus=0", "--system-reserved-cgroup=/system.slice", "--enforce-node-allocatable=system-reserved")
	p = made(t, n, Options{})
	if p.EvictionThreshold.MemoryBytes != 0 || p.SystemReserved.MilliCPU != 1000 || p.CPUPools.Reserved.CPUs != "0" || !warns(p, "enforceNodeAllocatable has system-reserved: the kubelet sets memory.max of /system.slice to 32Mi") {
		t.Errorf("%+v", p.Budget)
	}
	n.RunKubelet("--config=/etc/k.yaml", "--experimental-allocatable-ignore-eviction", "--local-storage-capacity-isolation=false")
	p = made(t, n, Options{})
	if p.EvictionThreshold.MemoryBytes != 0 || p.Capacity.StorageBytes != nil {
		t.Errorf("%+v", p.Budget)
	}
	// A kubelet without a configuration file has no thresholds.
	n.RunKubelet("--kube-reserved=cpu=1m")
	p = made(t, n, Options{})
	if p.EvictionThreshold.MemoryBytes != 0 || p.KubeReserved.MilliCPU != 1 || p.KubeReserved.MemoryBytes != 0 {
		t.Errorf("%+v", p.Budget)
	}
	if p.Capacity.MemoryBytes > 7*gibi && p.KubeReserved.MemoryBytes == 7*gibi {
		t.Error("the kubelet does not read the file of the well-known path")
	}
}

// TestPlanPartitions: each partition has the sums over its own pods, and its warnings name its
// section.
func TestPlanPartitions(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system")+
		"workloadPartitions:\n  batch: {memoryLimit: 1Gi, namespaces: [batch]}\n  node-agents: {namespaces: [agents]}\n")
	n.ServeGRPC("/var/lib/kubelet/pods-api/pods-api.sock", func(s *grpc.Server) {
		podsv1alpha1.RegisterPodsServer(s, fakenode.Kubelet{Pods: []*v1.Pod{
			fakenode.PodOf("kube-system", "dns", "7Mi", "17Mi"), fakenode.PodOf("batch", "job", "2Gi", ""),
			fakenode.PodOf("batch", "other", "1Gi", ""), fakenode.PodOf("web", "shop", "1Gi", "1Gi"),
		}})
	})
	p := made(t, n, Options{})
	want := map[partition.Name]budget.Members{
		"system":      {Pods: 1, MemoryRequestBytes: 7 << 20, MemoryLimitBytes: 17 << 20},
		"batch":       {Pods: 2, MemoryRequestBytes: 3 << 30, Unlimited: 2},
		"node-agents": {},
	}
	for _, partition := range p.Partitions {
		if m := partition.Members; m == nil || *m != want[partition.Name] {
			t.Errorf("%s: %+v; want %+v", partition.Name, m, want[partition.Name])
		}
	}
	if len(p.Partitions) != len(want) {
		t.Errorf("%+v", p.Partitions)
	}
	if !warns(p, "workloadPartitions.batch.memoryLimit of 1Gi is below the requests of its 2 pods, 3Gi") || warns(p, "systemPartition.") {
		t.Errorf("%q", p.Warnings)
	}
}

// TestPlanNoKubelet: without a running kubelet the well-known files are read.
func TestPlanNoKubelet(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("kubeReserved: {memory: 16Mi}\n"))
	p := made(t, n, Options{})
	if p.KubeReserved.MemoryBytes != 16<<20 || p.EvictionThreshold.MemoryBytes != 100<<20 || len(p.Partitions) != 0 ||
		p.Remainder.MemoryBytes != p.Allocatable.MemoryBytes || !warns(p, "no kubelet runs as kubelet.service: flags") {
		t.Errorf("%+v", p)
	}
	// The partition is switched off for this boot, and not for another node.
	n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Valid("kube-system"))
	if p = made(t, n, Options{}); p.Partitions[0].MemoryBytes != 64<<20 ||
		!slices.Equal(p.Configuration.Files, []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes/node-partition.yaml"}) {
		t.Errorf("%+v, %+v", p.Partitions, p.Configuration)
	}
	n.Write("/proc/cmdline", "quiet node_partition=0")
	if p = made(t, n, Options{}); len(p.Partitions) != 0 || !warns(p, "node_partition=0 on the kernel command line") {
		t.Errorf("%+v, %q", p.Partitions, p.Warnings)
	}
	if p = made(t, n, Options{Capacity: capacityOf(t, "cpu=2,memory=4Gi")}); p.Partitions[0].MemoryBytes != 64<<20 || p.Capacity.MemoryBytes != 4<<30 || p.Usage != nil {
		t.Errorf("%+v", p)
	}
}

// TestPlanOther plans another node from files, on a machine without a kubelet. TestComputeExample
// of internal/budget explains the numbers.
func TestPlanOther(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, "")
	n.Write("/etc/example.yaml", fakenode.Configuration(`kubeReserved: {cpu: "1", memory: 2Gi, ephemeral-storage: 1Gi}
systemReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1Gi}
evictionHard: {memory.available: 500Mi, nodefs.available: 10%}
`))
	n.Write("/etc/partition.yaml", fakenode.Configuration("systemPartition: {memoryLimit: 2Gi, cpuset: 0-3, namespaces: [kube-system]}"))
	capacity := capacityOf(t, "cpu=16,memory=32Gi,storage=100Gi")
	files := []string{"/etc/example.yaml", "/etc/partition.yaml"}
	p := made(t, n, Options{Capacity: capacity, Files: files})
	if p.Invalid != nil || p.Allocatable.MilliCPU != 14500 || p.Allocatable.MemoryBytes != 29196<<20 || *p.Allocatable.StorageBytes != 88<<30-160 ||
		p.Remainder.MemoryBytes != (29196-2048)<<20 || p.CPUPools.Shared.CPUs != "4-15" || len(p.Warnings) != 1 || !warns(p, "systemPartition.cpuset: the scheduler promises CPU 0-3") {
		t.Errorf("%v, %+v", p.Invalid, p.Budget)
	}
	// A section that the generator refuses: the plan is there, and the status is 1.
	n.Write("/etc/partition.yaml", fakenode.Configuration("systemPartition: {memoryLimit: 32Gi, cpuset: 15-16, namespaces: [kube-system]}"))
	p = made(t, n, Options{Capacity: capacity, Files: files})
	if len(p.Problems) != 2 || p.Invalid == nil || !strings.Contains(p.Invalid.Error(), "the node has no CPU 16") || p.Remainder.MemoryBytes != 0 ||
		!warns(p, "systemPartition.memoryLimit: 32Gi leaves 0 of the node's 32Gi for user pods") {
		t.Errorf("%v, %+v", p.Invalid, p)
	}
	// One whose limit is no quantity: there is no figure of it, and the first line says so.
	n.Write("/etc/partition.yaml", fakenode.Configuration("systemPartition: {memoryLimit: 4GB, namespaces: [kube-system]}\n"+
		"workloadPartitions: {batch: {memoryLimit: 1Gi, namespaces: [batch]}, agents: {namespaces: [agents]}}"))
	p = made(t, n, Options{Capacity: capacity, Files: files})
	names := make([]partition.Name, 0, len(p.Partitions))
	for _, row := range p.Partitions {
		names = append(names, row.Name)
	}
	var table bytes.Buffer
	if err := WriteTable(&table, p); err != nil || !slices.Equal(names, []partition.Name{"agents", "batch"}) ||
		!strings.HasPrefix(table.String(), "Not valid           /etc/partition.yaml: the generator refuses it") || strings.Contains(table.String(), "partition system") {
		t.Errorf("%v, %v:\n%s", err, names, &table)
	}
	_, err := Read(t.Context(), Options{Node: n.Host(), Capacity: capacity, Files: []string{"/etc/none.yaml"}})
	if err == nil || !strings.Contains(err.Error(), "/etc/none.yaml") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

// TestPlanShare: a percentage is of the memory that is planned, and on a running node of the memory
// of this boot.
func TestPlanShare(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration(""))
	n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(
		"systemPartition: {memoryLimit: 25%, memoryLimitMax: 2Gi, namespaces: [kube-system]}"))
	n.Write("/etc/sections.yaml", golden.KubeletHead+"systemPartition: {memoryLimit: 12%, memoryLimitMin: 300Mi, namespaces: [kube-system]}\n")
	n.Write("/proc/meminfo", "MemTotal: 16777216 kB\n")
	n.Write(config.MemoryFile, `{"totalBytes":4294967296}`)
	for _, test := range []struct {
		o     Options
		limit uint64
		of    uint64
		bound string
	}{
		{Options{}, 1 << 30, 4 << 30, ""},
		{Options{Capacity: capacityOf(t, "cpu=4,memory=2Gi")}, 512 << 20, 2 << 30, ""},
		{Options{Capacity: capacityOf(t, "cpu=4,memory=16Gi")}, 2 << 30, 16 << 30, "memoryLimitMax"},
		{Options{Capacity: capacityOf(t, "cpu=4,memory=2Gi"), Files: []string{"/etc/sections.yaml"}}, 300 << 20, 2 << 30, "memoryLimitMin"},
		{Options{Capacity: capacityOf(t, "cpu=4,memory=4Gi"), Files: []string{"/etc/sections.yaml"}}, 491 << 20, 4 << 30, ""},
		{Options{Capacity: capacityOf(t, "cpu=4,memory=8Gi"), Files: []string{"/etc/sections.yaml"}}, 983 << 20, 8 << 30, ""},
	} {
		p := made(t, n, test.o)
		if p.Invalid != nil || len(p.Partitions) != 1 || p.Partitions[0].MemoryBytes != int64(test.limit) {
			t.Errorf("%+v: %v, %+v", test.o, p.Invalid, p.Partitions)
			continue
		}
		if s := p.Partitions[0]; s.Share == "" || s.ShareOfBytes != test.of || s.Bound != test.bound || s.Name != "system" {
			t.Errorf("%+v: %+v", test.o, s)
		}
		var text bytes.Buffer
		if err := WriteTable(&text, p); err != nil || !strings.Contains(text.String(), "PARTITION  MEMORYLIMIT  OF") {
			t.Errorf("%v:\n%s", err, &text)
		}
	}
	n.Write("/etc/sections.yaml", golden.KubeletHead+"maxPods: 9\nsystemPartition: {memoryLimit: 12%, namespaces: [kube-system]}\n")
	if p := made(t, n, Options{Capacity: capacityOf(t, "cpu=4,memory=2Gi"), Files: []string{"/etc/sections.yaml"}}); len(p.Problems) != 1 ||
		!strings.Contains(p.Problems[0], "which only /etc/kubernetes/node-partition.yaml may have") {
		t.Errorf("%+v", p.Problems)
	}
}
