package collect

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"node-partition.io/node-partition/internal/command/check"
	"node-partition.io/node-partition/internal/command/recommend"
	"node-partition.io/node-partition/internal/command/status"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/testkit"
)

var update = flag.Bool("update", false, "write docs/sample-node")

// sampleKubelet and sampleSection are the configurations of the sample.
const (
	sampleKubelet = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
kubeReserved: {cpu: 200m, memory: 512Mi}
systemReserved: {cpu: 200m, memory: 512Mi}
evictionHard: {memory.available: 100Mi}
failSwapOn: false
memorySwap: {swapBehavior: LimitedSwap}
`
	sampleSection = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
systemPartition:
  namespaces: [kube-system]
  memoryLimit: 1Gi
  cpuset: "0-1"`
)

// samplePods has the pods of the sample. Amounts are in MiB.
var samplePods = []struct {
	namespace, name string
	in              partition.Name
	priority        int32
	request, used   uint64
	restart         v1.RestartPolicy
}{
	{"kube-system", "cni-7d2kq", partition.System, 2_000_001_000, 64, 96, v1.RestartPolicyAlways},
	{"kube-system", "coredns-m4tqz", partition.System, 2_000_000_000, 70, 62, v1.RestartPolicyAlways},
	{"kube-system", "log-collector-b4s8d", partition.System, 0, 128, 410, v1.RestartPolicyAlways},
	{"kube-system", "metrics-agent-q9f5t", partition.System, 0, 100, 180, v1.RestartPolicyAlways},
	{"kube-system", "backup-h7k2c", partition.Default, 0, 32, 40, v1.RestartPolicyNever},
	{"web", "shop-kx2lp", partition.Default, 0, 512, 700, v1.RestartPolicyAlways},
}

// sample returns a node with 16 GiB whose log collector leaks. It is evicted once in two days.
func sample(t *testing.T) *fakeNode {
	t.Helper()
	n := newNode(t, sampleKubelet)
	n.Write("/etc/kubernetes/node-partition.yaml", sampleSection)
	n.Write("/etc/os-release", `PRETTY_NAME="Debian GNU/Linux 13 (trixie)"`)
	n.Write("/proc/swaps", "Filename Type Size Used Priority\n/dev/vda2 partition 2097148 0 -2")
	n.RunKubelet("--config=/var/lib/kubelet/config.yaml")
	n.Generate(0)
	var served fakenode.Runtime
	var listed fakenode.Kubelet
	for i, p := range samplePods {
		uid := fmt.Sprintf("%08d-2222-3333-4444-555555555555", i+1)
		id := strings.Repeat("0", 56) + uid[:8]
		slice := partition.CgroupPath(partition.PodSlice(p.in, v1.PodQOSBurstable, uid))
		for _, name := range []string{slice, path.Join(slice, "cri-containerd-"+id+".scope")} {
			n.used(name, "max", p.used)
		}
		pod := fakenode.PodOf(p.namespace, p.name, fmt.Sprintf("%dMi", p.request), "")
		pod.UID, pod.Spec.Priority, pod.Spec.RestartPolicy = types.UID(uid), &p.priority, p.restart
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
		pod.Status = v1.PodStatus{
			QOSClass: v1.PodQOSBurstable, Phase: v1.PodRunning,
			ContainerStatuses: []v1.ContainerStatus{{Name: "c", ContainerID: "containerd://" + id, Ready: true}},
		}
		listed.Pods = append(listed.Pods, pod)
		served.Sandboxes = append(served.Sandboxes, &runtime.PodSandbox{
			Id: uid, Metadata: &runtime.PodSandboxMetadata{Namespace: p.namespace, Name: p.name, Uid: uid},
		})
		served.Containers = append(served.Containers, &runtime.Container{
			Id: id, PodSandboxId: uid, State: runtime.ContainerState_CONTAINER_RUNNING, Metadata: &runtime.ContainerMetadata{Name: "c"},
		})
	}
	n.used("kubepods.slice/kubepods-system.slice", fmt.Sprint(1<<30), 748)
	n.Cgroup("kubepods.slice/kubepods-system.slice", map[string]string{
		"cpuset.cpus": "0-1", "memory.high": "max", "memory.swap.max": "max", "cgroup.kill": "", "memory.pressure": "some avg10=0.00",
	})
	n.Serve(&served)
	n.ServeGRPC(kubelet.PodsSocket, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, listed) })
	n.Listen("/run/nri/nri.sock")
	n.MonitorAnswers(http.StatusOK, "ok")
	n.Cluster = fakeapi.New(t, httptest.NewServer)
	n.Cluster.Kubeconfig(t, filepath.Join(n.Root, "/var/lib/kubelet/kubeconfig"))
	n.measure()
	return n
}

// used writes the files of a cgroup that uses so many MiB, and whose children may have none.
func (n *fakeNode) used(cgroup, limit string, mebi uint64) {
	n.t.Helper()
	n.Cgroup(cgroup, map[string]string{
		"memory.max": limit, "memory.current": fmt.Sprint(mebi << 20), "cpu.weight": "4", "cpu.max": "max 100000", "pids.max": "max",
		"cgroup.events": "populated 1",
		"memory.stat":   fmt.Sprintf("anon %d\ninactive_file 0\nactive_file 0\nslab_reclaimable 0", mebi<<20),
	})
}

// measure writes what the members have used in eight days, and the last eviction.
func (n *fakeNode) measure() {
	n.t.Helper()
	file, err := sizefile.Open(host.Root(n.Root), partition.System)
	if err != nil {
		n.t.Fatal(err)
	}
	const (
		length = 8 * 24 * time.Hour
		leak   = 44 * time.Hour               // until an eviction
		leaks  = 8*time.Hour + 35*time.Minute // of the first leak, before the record
	)
	begin := time.Now().UTC().Add(-length).Truncate(time.Minute)
	var evicted time.Time
	for since := time.Minute; since <= length; since += time.Minute {
		usage, all := map[string]uint64{}, uint64(0)
		for _, p := range samplePods {
			if p.in != partition.System {
				continue
			}
			used := p.used << 20
			if p.name == "log-collector-b4s8d" {
				used = 122<<20 + uint64((since+leaks)%leak/time.Minute)*200<<10
			}
			usage["kube-system/"+p.name[:strings.LastIndexByte(p.name, '-')]] = used
			all += used
		}
		if (since+leaks)%leak == 0 {
			evicted = begin.Add(since)
		}
		file.Add(begin.Add(since), time.Minute, sizefile.Minute{Used: all, Members: len(usage), RequestBytes: 362 << 20, Usage: usage})
	}
	if err := file.Write(host.Root(n.Root)); err != nil {
		n.t.Fatal(err)
	}
	n.Write("/run/node-partition/monitor/evictions.json", fmt.Sprintf(`{"version":1,"last":[{"namespace":"kube-system","name":"log-collector-v8x2n",`+
		`"time":%q,"threshold":"hard","method":"evict","availableBytes":50960793,"thresholdBytes":53687091,"limitBytes":1073741824,`+
		`"workingSetBytes":668378726,"requestBytes":134217728,"usedBytes":668378726,"gone":true,"reported":true}]}`, evicted.Format(time.RFC3339)))
}

// TestCollectRoot: status and check of an unpacked bundle say what they have said on its node, also
// what they had asked the services of the node for, and recommend computes the same limit. With
// -update, the bundle and what plan reads in addition are docs/sample-node.
func TestCollectRoot(t *testing.T) {
	t.Parallel()
	n := sample(t)
	files := n.collect()
	if *update {
		writeSample(t, n, files)
	}
	bundle := t.TempDir()
	testkit.WriteFiles(t, bundle, files)
	there, err := host.Open(bundle)
	if err != nil {
		t.Fatal(err)
	}
	var said [2]string
	for i, on := range []host.Node{n.Host(), there} {
		o := n.Options()
		o.Node, o.Listen = on, ""
		found, err := status.Read(t.Context(), o)
		advice, adviceErr := recommend.Read(recommend.Options{Node: on})
		if err := errors.Join(err, adviceErr); err != nil {
			t.Fatal(err)
		}
		found.Service, _, _ = strings.Cut(found.Service, ", by its status.json of "+found.Time.Format(time.RFC3339))
		var text strings.Builder
		fmt.Fprintf(&text, "memoryLimit %d %q\n", advice.LimitBytes, advice.Warnings)
		for _, f := range check.Node(t.Context(), o, nil).Findings {
			fmt.Fprintf(&text, "%s %s: %s\n", f.Grade, f.Check, f.Found)
		}
		if err := status.Table(true)(&text, found); err != nil {
			t.Fatal(err)
		}
		said[i] = strings.ReplaceAll(text.String(), n.Root, "")
	}
	if said[0] != said[1] || !strings.Contains(said[0], " next ") || !strings.Contains(said[0], "pods were evicted") {
		t.Errorf("the node:\n%s\nits bundle:\n%s", said[0], said[1])
	}
}

// writeSample writes docs/sample-node: of the bundle what the commands read, without the addresses
// of this machine, and what plan reads of a node in addition.
func writeSample(t *testing.T, n *fakeNode, bundle map[string]string) {
	t.Helper()
	const dir = "../../../docs/sample-node"
	addresses := strings.NewReplacer(n.Root, "", n.Cluster.URL, "https://192.0.2.1:6443", "metrics at ", "metrics at 127.0.0.1:9948")
	files := map[string]string{}
	for name, text := range bundle {
		folder, _, _ := strings.Cut(name, "/")
		if folder != "README.txt" && folder != "errors.txt" && folder != "units.txt" && (folder != "run" || path.Base(name) == "evictions.json") && !strings.Contains(name, "/kubepods-system.slice/kubepods-") &&
			!strings.Contains(name, "/kubepods-burstable.slice/") {
			files[name] = addresses.Replace(text)
		}
	}
	for _, name := range []string{
		"proc/cmdline", "proc/meminfo", "proc/swaps", "sys/devices/system/cpu/present", "sys/devices/system/cpu/online",
		"sys/fs/cgroup/cgroup.controllers", "var/lib/kubelet/config.yaml",
		fmt.Sprintf("proc/%d/cmdline", fakenode.PID), "sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs",
	} {
		data, err := os.ReadFile(filepath.Join(n.Root, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFiles(t, dir, files)
}
