package audit

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"

	"nodepartition/internal/unitname"
)

const cgroupMount = "sys/fs/cgroup/"

// healthy reads the snapshot of a healthy node, an e2-medium of GKE with four pods.
func healthy(t *testing.T) *Facts {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/e2-medium.txtar")
	if err != nil {
		t.Fatal(err)
	}
	s := &Facts{
		Time:    metav1.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
		Names:   []unitname.PartitionName{unitname.System},
		Cgroups: map[string]Files{}, Units: map[string]Unit{}, Sysctls: map[string]string{}, Containers: map[string]FirstProcess{},
		Processes: []Process{
			{KubeletDaemon, "kubelet.service", "system.slice/kubelet.service", 700, -999},
			{RuntimeDaemon, "containerd.service", "system.slice/containerd.service", 600, -999},
		},
	}
	for _, f := range archive.Files {
		text := strings.TrimSpace(string(f.Data))
		switch cgroup, isCgroup := strings.CutPrefix(f.Name, cgroupMount); {
		case isCgroup:
			s.Cgroups[cgroup] = pairs(text, ":")
		case f.Name == "units":
			for block := range strings.SplitSeq(text, "\n\n") {
				unit := pairs(block, "=")
				s.Units[unit["Id"]] = unit
			}
		case f.Name == "sysctl":
			s.Sysctls = pairs(text, "=")
		case f.Name == "scores":
			for line := range strings.Lines(text) {
				var cgroup string
				var p FirstProcess
				if _, err := fmt.Sscan(line, &cgroup, &p.PID, &p.OOMScoreAdj); err != nil {
					t.Fatal(err)
				}
				s.Containers[cgroup] = p
			}
		case f.Name == "pods.yaml":
			s.PodsKnown = true
			for _, text := range bytes.Split(f.Data, []byte("\n---\n")) {
				pod := &v1.Pod{}
				decode(t, text, pod)
				s.Pods = append(s.Pods, pod)
			}
		case f.Name == "node.yaml":
			s.Node = readNode(t, f.Data)
		case f.Name == "kubelet.yaml":
			s.Kubelet = readKubelet(t, f.Data)
		default:
			t.Fatalf("%s: not known", f.Name)
		}
	}
	return s
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
}

func pairs(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, separator)
		all[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return all
}

func readNode(t *testing.T, text []byte) Node {
	t.Helper()
	var n struct {
		MilliCPU, MemoryBytes, PIDs int64
		CPUs                        string
	}
	decode(t, text, &n)
	set, err := cpuset.Parse(n.CPUs)
	if err != nil {
		t.Fatal(err)
	}
	return Node{MilliCPU: n.MilliCPU, MemoryBytes: n.MemoryBytes, PIDs: n.PIDs, CPUs: set, PageSize: 4096}
}

func readKubelet(t *testing.T, text []byte) *Kubelet {
	t.Helper()
	k := struct {
		Kubelet
		KubeReserved   v1.ResourceList `json:"kubeReserved"`
		SystemReserved v1.ResourceList `json:"systemReserved"`
	}{}
	decode(t, text, &k)
	k.Kubelet.KubeReserved, k.Kubelet.SystemReserved = amounts(k.KubeReserved), amounts(k.SystemReserved)
	k.Source = "/var/lib/kubelet/config.yaml"
	return &k.Kubelet
}

func amounts(list v1.ResourceList) Amounts {
	of := func(name v1.ResourceName, value func(*resource.Quantity) int64) *int64 {
		if q, ok := list[name]; ok {
			return new(value(&q))
		}
		return nil
	}
	return Amounts{
		MilliCPU: of(v1.ResourceCPU, (*resource.Quantity).MilliValue), MemoryBytes: of(v1.ResourceMemory, (*resource.Quantity).Value),
		PIDs: of("pid", (*resource.Quantity).Value),
	}
}

// change changes a snapshot.
type change func(*Facts)

// echo writes a file of a cgroup, and systemd does not learn of it.
func echo(cgroup, name, text string) change {
	return func(s *Facts) { s.Cgroups[cgroup][name] = text }
}

// property changes a property of a slice or a scope, and systemd writes the file. The text in the
// file may differ from that of the property.
func property(cgroup, name, value, file, text string) change {
	return func(s *Facts) {
		if unit := s.Units[path.Base(cgroup)]; unit != nil {
			unit[name] = value
		}
		s.Cgroups[cgroup][file] = text
	}
}

// kubelet merges settings over those of the kubelet.
func kubelet(t *testing.T, text string) change {
	t.Helper()
	return func(s *Facts) {
		merged := readKubelet(t, []byte(text))
		if merged.KubeReserved == (Amounts{}) {
			merged.KubeReserved = s.Kubelet.KubeReserved
		}
		s.Kubelet = merged
	}
}

func changes(all ...change) change {
	return func(s *Facts) {
		for _, c := range all {
			c(s)
		}
	}
}

// pod changes the pod of that name.
func pod(name string, c func(*v1.Pod)) change {
	return func(s *Facts) {
		for _, p := range s.Pods {
			if p.Name == name {
				c(p)
			}
		}
	}
}

// score changes the oom_score_adj of a container.
func score(scope string, adj int) change {
	return func(s *Facts) { s.Containers[scope] = FirstProcess{s.Containers[scope].PID, adj} }
}

// The cgroups of the fixture.
const (
	webSlice   = "kubepods.slice/kubepods-pod1_a.slice"
	appSlice   = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2_b.slice"
	agentSlice = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3_c.slice"
	batchSlice = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod4_d.slice"
	webScope   = webSlice + "/cri-containerd-webweb.scope"
	appScope   = appSlice + "/cri-containerd-appapp.scope"
	agentScope = agentSlice + "/cri-containerd-agentagent.scope"
	batchScope = batchSlice + "/cri-containerd-batchbatch.scope"
)
