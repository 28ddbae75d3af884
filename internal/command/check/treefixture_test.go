package check

import (
	"bytes"
	"path"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/kubeletargs"
	"node-partition.io/node-partition/internal/unitname"
)

// healthy reads the tree of a healthy node, an e2-medium of GKE with four pods.
func healthy(t *testing.T) *tree {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/e2-medium.txtar")
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{
		names:   []unitname.PartitionName{unitname.System},
		cgroups: map[string]map[string]string{}, scopes: map[string]string{}, units: map[string]map[string]string{},
		scores: map[int]int{700: -999, 600: -999}, found: map[string]bool{},
	}
	tr.Kubelet = &kubeletargs.Process{PID: 700}
	for _, f := range archive.Files {
		text := strings.TrimSpace(string(f.Data))
		switch cgroup, isCgroup := strings.CutPrefix(f.Name, "sys/fs/cgroup/"); {
		case isCgroup:
			tr.cgroups[cgroup] = pairs(text, ":")
			if id := unitname.ContainerID(path.Base(cgroup)); id != "" {
				tr.scopes[id] = cgroup
			}
		case f.Name == "units":
			for block := range strings.SplitSeq(text, "\n\n") {
				unit := pairs(block, "=")
				tr.units[unit["Id"]] = unit
			}
		case f.Name == "pods.yaml":
			for _, text := range bytes.Split(f.Data, []byte("\n---\n")) {
				pod := &v1.Pod{}
				decode(t, text, pod)
				tr.pods = append(tr.pods, pod)
			}
		case f.Name == "node.yaml":
			var n struct {
				MilliCPU, MemoryBytes, PIDs int64
				CPUs                        string
			}
			decode(t, f.Data, &n)
			tr.Capacity.MilliCPU, tr.Capacity.MemoryBytes, tr.pids = n.MilliCPU, n.MemoryBytes, n.PIDs
			if tr.CPUs, err = cpuset.Parse(n.CPUs); err != nil {
				t.Fatal(err)
			}
		case f.Name == "kubelet.yaml":
			kubelet(t, string(f.Data))(tr)
		default:
			t.Fatalf("%s: not known", f.Name)
		}
	}
	tr.units[kubeletService] = map[string]string{"ControlGroup": "/system.slice/kubelet.service"}
	tr.units["containerd.service"] = map[string]string{"MainPID": "600"}
	return tr
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(text, into); err != nil {
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

// change changes a tree.
type change func(*tree)

// kubelet replaces the settings of the kubelet, and its reservations where the text has them.
func kubelet(t *testing.T, text string) change {
	t.Helper()
	return func(tr *tree) {
		tr.settings = &kubeletSettings{Source: "/var/lib/kubelet/config.yaml"}
		decode(t, []byte(text), tr.settings)
		if kube := tr.settings.KubeReserved; kube != nil {
			tr.KubeReserved.MilliCPU, tr.KubeReserved.MemoryBytes = milli(kube["cpu"]), amount(kube["memory"])
		}
		system := tr.settings.SystemReserved
		tr.SystemReserved.MilliCPU, tr.SystemReserved.MemoryBytes = milli(system["cpu"]), amount(system["memory"])
	}
}

func milli(text string) int64 {
	q, _ := resource.ParseQuantity(text)
	return q.MilliValue()
}

func amount(text string) int64 {
	q, _ := resource.ParseQuantity(text)
	return q.Value()
}

// echo writes a file of a cgroup, and systemd does not learn of it.
func echo(cgroup, name, text string) change {
	return func(tr *tree) { tr.cgroups[cgroup][name] = text }
}

// property changes a property of a slice or a scope, and systemd writes the file.
func property(cgroup, name, value, file, text string) change {
	return func(tr *tree) {
		if unit := tr.units[path.Base(cgroup)]; unit != nil {
			unit[name] = value
		}
		tr.cgroups[cgroup][file] = text
	}
}

func changes(all ...change) change {
	return func(tr *tree) {
		for _, c := range all {
			c(tr)
		}
	}
}

// pod changes the pod of that name.
func pod(name string, c func(*v1.Pod)) change {
	return func(tr *tree) {
		for _, p := range tr.pods {
			if p.Name == name {
				c(p)
			}
		}
	}
}

// inside moves the kubelet to another cgroup.
func inside(cgroup string) change {
	return func(tr *tree) { tr.units[kubeletService]["ControlGroup"] = cgroup }
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
