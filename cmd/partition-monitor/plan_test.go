package main

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"nodepartition/internal/budget"
	"nodepartition/internal/monitor/plan"
)

// plan runs plan with JSON, and expects an exit status.
func (n *fakeNode) plan(want int, args ...string) (p plan.Plan, stderr string) {
	n.t.Helper()
	status, stdout, stderr := n.run(append([]string{"plan", "--output=json"}, args...)...)
	if status != want {
		n.t.Fatalf("%q: status %d, %q; want %d", args, status, stderr, want)
	}
	if err := json.Unmarshal([]byte(stdout), &p); err != nil {
		n.t.Fatalf("%v:\n%s", err, stdout)
	}
	return p, stderr
}

// warns reports whether a warning begins with a text.
func warns(p plan.Plan, text string) bool {
	for _, w := range p.Warnings {
		if strings.HasPrefix(w, text) {
			return true
		}
	}
	return false
}

// kubeletWithPods has pods of a request and a limit.
type kubeletWithPods struct {
	podsv1alpha1.UnimplementedPodsServer
	pods []*v1.Pod
}

func (k kubeletWithPods) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]) error {
	for _, pod := range k.pods {
		data, err := pod.Marshal()
		if err == nil {
			err = stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_ADDED, Pod: data})
		}
		if err != nil {
			return err
		}
	}
	if err := stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// podOf returns a pod with a memory request, and a limit unless that is empty.
func podOf(namespace, name, request, limit string) *v1.Pod {
	c := v1.Container{Name: "c"}
	c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
	if limit != "" {
		c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{c}},
	}
}

// TestPlanNode: the plan of a node has the kubelet's configuration with its drop-ins, the flags of
// the running kubelet over them, the pods of the partition, and the memory of the slices.
func TestPlanNode(t *testing.T) {
	t.Parallel()
	const gibi = 1 << 30
	// The file of the well-known path is not the one of this kubelet. The section is read from it.
	n := newNode(t, valid("kube-system")+"kubeReserved: {memory: 7Gi}\n")
	n.write("/etc/k.yaml", kubelet("kubeReserved: {memory: 16Mi}\nsystemReserved: {memory: 32Mi}\n"))
	n.write("/etc/k.d/1.conf", kubelet("evictionHard: {nodefs.available: 1Mi}\nsystemReserved: {ephemeral-storage: 1Mi}\n"))
	n.partition("67108864")
	n.write(systemCgroup+"/memory.peak", "2097152")
	for name, text := range map[string]string{"memory.current": "10485760", "memory.stat": "inactive_file 1048576", "cpu.stat": "usage_usec 1"} {
		n.write("/sys/fs/cgroup/system.slice/"+name, text)
	}
	ended := podOf("kube-system", "job", "1Gi", "1Gi")
	ended.Status.Phase = v1.PodSucceeded
	n.serveGRPC("/var/lib/kubelet/pods-api/pods-api.sock", func(s *grpc.Server) {
		podsv1alpha1.RegisterPodsServer(s, kubeletWithPods{pods: []*v1.Pod{
			podOf("kube-system", "dns", "70Mi", "170Mi"), podOf("kube-system", "proxy", "10Mi", ""), podOf("web", "shop", "1Gi", "1Gi"), ended,
		}})
	})
	n.runKubelet("--config=/etc/k.yaml", "--config-dir", "/etc/k.d", "--kube_reserved", "memory=64Mi", "--max-pods=20")
	p, stderr := n.plan(exitOK)
	if stderr != "" {
		t.Errorf("stderr %q", stderr)
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
	if p.Configuration.KubeletPID == 0 || strings.Join(p.Configuration.Files, " ") != "/etc/k.yaml /etc/k.d/1.conf" {
		t.Errorf("%+v", p.Configuration)
	}
	if want := (budget.Members{Pods: 2, MemoryRequestBytes: 80 << 20, MemoryLimitBytes: 170 << 20, Unlimited: 1}); p.Members == nil || *p.Members != want {
		t.Errorf("members %+v; want %+v", p.Members, want)
	}
	if len(p.Usage) != 2 || p.Usage[0].PeakBytes == nil || *p.Usage[0].PeakBytes != 2<<20 || p.Usage[1].WorkingSetBytes != 9<<20 || p.Usage[1].PeakBytes != nil {
		t.Errorf("usage %+v", p.Usage)
	}
	for _, want := range []string{"systemPartition.memoryLimit of 64Mi is below the requests of its 2 pods, 80Mi", "systemPartition.memoryLimit of 64Mi is below the sum of the memory limits"} {
		if !warns(p, want) {
			t.Errorf("want %q in %q", want, p.Warnings)
		}
	}
	if eks := p.Providers[1]; eks.Reserved.MemoryBytes != (11*20+255)<<20 {
		t.Errorf("%+v; want the formula for 20 pods", eks)
	}
	// A flag without a value overrides the files, too, and another one removes the threshold.
	n.runKubelet("--config=/etc/k.yaml", "--eviction-hard=", "--reserved-cpus=0", "--system-reserved-cgroup=/system.slice")
	p, _ = n.plan(exitOK)
	if p.EvictionThreshold.MemoryBytes != 0 || p.SystemReserved.MilliCPU != 1000 || p.CPUPools.Reserved.CPUs != "0" || !warns(p, "reservedSystemCPUs is set together") {
		t.Errorf("%+v", p.Budget)
	}
	n.runKubelet("--config=/etc/k.yaml", "--experimental-allocatable-ignore-eviction", "--local-storage-capacity-isolation=false", "--cpu-manager-policy=static")
	p, _ = n.plan(exitOK)
	if p.EvictionThreshold.MemoryBytes != 0 || p.Capacity.StorageBytes != nil || !warns(p, "cpuManagerPolicy is static") {
		t.Errorf("%+v", p.Budget)
	}
	// A kubelet without a configuration file has no thresholds.
	n.runKubelet("--kube-reserved=cpu=1m")
	p, _ = n.plan(exitOK)
	if p.EvictionThreshold.MemoryBytes != 0 || p.KubeReserved.MilliCPU != 1 || p.KubeReserved.MemoryBytes != 0 {
		t.Errorf("%+v", p.Budget)
	}
	if p.Capacity.MemoryBytes > 7*gibi && p.KubeReserved.MemoryBytes == 7*gibi {
		t.Error("the kubelet does not read the file of the well-known path")
	}
}

// TestPlanNoKubelet: without a running kubelet the well-known files are read.
func TestPlanNoKubelet(t *testing.T) {
	t.Parallel()
	n := newNode(t, kubelet("kubeReserved: {memory: 16Mi}\n"))
	p, _ := n.plan(exitOK)
	if p.KubeReserved.MemoryBytes != 16<<20 || p.EvictionThreshold.MemoryBytes != 100<<20 || p.Partition.MemoryBytes != 0 ||
		p.Remainder.MemoryBytes != p.Allocatable.MemoryBytes || p.Members != nil || !warns(p, "no kubelet runs as kubelet.service: flags") {
		t.Errorf("%+v", p)
	}
	// The partition is switched off for this boot, and not for another node.
	n.write("/etc/kubernetes/node-partition.yaml", valid("kube-system"))
	if p, _ = n.plan(exitOK); p.Partition.MemoryBytes != 64<<20 {
		t.Errorf("%+v", p.Partition)
	}
	n.write("/proc/cmdline", "quiet node_partition=0")
	if p, _ = n.plan(exitOK); p.Partition.MemoryBytes != 0 || !warns(p, "node_partition=0 on the kernel command line") {
		t.Errorf("%+v, %q", p.Partition, p.Warnings)
	}
	if p, _ = n.plan(exitOK, "--capacity=cpu=2,memory=4Gi"); p.Partition.MemoryBytes != 64<<20 || p.Capacity.MemoryBytes != 4<<30 || p.Usage != nil {
		t.Errorf("%+v", p)
	}
	// A value that the kubelet refuses is an error.
	n.write("/var/lib/kubelet/config.yaml", kubelet("kubeReserved: {memory: 1x}\nevictionHard: {memory.available: 200%}\n"))
	status, stdout, stderr := n.run("plan")
	if status != exitProblem || stdout != "" || !strings.Contains(stderr, `kubeReserved[memory]: "1x" is not a quantity; the kubelet does not start with it`) ||
		strings.Count(stderr, "\n") != 2 {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	n.write("/var/lib/kubelet/config.yaml", kubelet("kubeReserved: 5\n"))
	n.oneProblem([]string{"/var/lib/kubelet/config.yaml: kubeReserved: 5 has the wrong type"}, "plan")
}

// TestPlanOther plans another node from files, on a machine without a kubelet. TestComputeExample
// of internal/budget explains the numbers.
func TestPlanOther(t *testing.T) {
	t.Parallel()
	n := newNode(t, "")
	n.write("/etc/example.yaml", kubelet(`kubeReserved: {cpu: "1", memory: 2Gi, ephemeral-storage: 1Gi}
systemReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1Gi}
evictionHard: {memory.available: 500Mi, nodefs.available: 10%}
`))
	n.write("/etc/partition.yaml", kubelet("systemPartition: {memoryLimit: 2Gi, cpuset: 0-3, namespaces: [kube-system]}"))
	const capacity = "--capacity=cpu=16,memory=32Gi,storage=100Gi"
	p, stderr := n.plan(exitOK, capacity, "--config=/etc/example.yaml", "--config=/etc/partition.yaml")
	if stderr != "" || p.Allocatable.MilliCPU != 14500 || p.Allocatable.MemoryBytes != 29196<<20 || *p.Allocatable.StorageBytes != 88<<30-160 ||
		p.Remainder.MemoryBytes != (29196-2048)<<20 || p.CPUPools.Shared.CPUs != "4-15" || len(p.Warnings) != 0 {
		t.Errorf("%q, %+v", stderr, p.Budget)
	}
	// A section that the generator refuses: the plan is there, and the status is 1.
	n.write("/etc/partition.yaml", kubelet("systemPartition: {memoryLimit: 32Gi, cpuset: 15-16, namespaces: [kube-system]}"))
	p, stderr = n.plan(exitProblem, capacity, "--config=/etc/example.yaml", "--config=/etc/partition.yaml")
	if len(p.Problems) != 2 || !strings.Contains(stderr, "the node has no CPU 16") || p.Remainder.MemoryBytes != 0 ||
		!warns(p, "systemPartition.memoryLimit of 32Gi takes all of the 29196Mi") {
		t.Errorf("%q, %+v", stderr, p)
	}
	n.oneProblem([]string{"/etc/none.yaml", "no such file"}, "plan", capacity, "--config=/etc/none.yaml")
	for _, args := range [][]string{{"--capacity=cpu=2"}, {"--capacity="}, {"--output=xml"}, {"argument"}} {
		if status, _, stderr := n.run(append([]string{"plan"}, args...)...); status != exitUsage {
			t.Errorf("%q: status %d, %q", args, status, stderr)
		}
	}
	// Table and YAML.
	if status, stdout, _ := n.run("plan", capacity, "--config=/etc/example.yaml"); status != exitOK || !strings.Contains(stdout, "= Node Allocatable    14500m  29196Mi") {
		t.Errorf("status %d:\n%s", status, stdout)
	}
	if status, stdout, _ := n.run("plan", capacity, "--config=/etc/example.yaml", "-o", "yaml"); status != exitOK ||
		!strings.Contains(stdout, "allocatable:\n  memoryBytes: 30614224896\n") || !strings.Contains(stdout, "\nwarnings: []\n") {
		t.Errorf("status %d:\n%s", status, stdout)
	}
}
