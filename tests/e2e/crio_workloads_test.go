//go:build node

package e2e

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

const (
	// management is the type of TestCRIOSideBySide: an entry of CRI-O's table, and then a partition.
	management = "management"
	// managementSection has the type on one CPU of two. render crio makes the table of it, too.
	managementSection = `workloadPartitions:
  management: {cpuset: "0", allowedNamespaces: [operators]}
`
	// crioTable is the file that OpenShift has for the table.
	crioTable = "/etc/crio/crio.conf.d/01-workload-partitioning"
)

// part is a container of a pod that asks for the type.
type part struct {
	name string
	// cores is the request of the resource of the type. A container without one requests memory alone,
	// unless its pod is to be a BestEffort pod.
	cores int64
	// annotation is empty for a container of which the annotations say nothing.
	annotation string
	// has is what it gets on both sides: the CPUs of its processes, cpu.weight, and cpu.max if that is
	// a limit.
	has string
}

// managedPods are pods in the forms that OpenShift's admission leaves: a BestEffort pod has its
// shares in the annotation alone, and a Burstable pod has the resource. One has limits.
var managedPods = map[string][]part{
	"besteffort": {{"main", 0, `{"cpushares":2}`, "0 1"}},
	"burstable":  {{"main", 400, `{"cpushares":409}`, "0 16"}, {"helper", 0, `{"cpushares":2}`, "0 1"}, {"unlisted", 0, "", "0 1"}},
	"limited": {
		{"main", 400, `{"cpushares":409,"cpulimit":500}`, "0 16 50000 100000"},
		{"helper", 100, `{"cpushares":102,"cpulimit":100}`, "0 4 10000 100000"},
	},
}

// managed returns a pod as OpenShift's admission leaves it.
func managed(name string) spec {
	s := asking(spec{namespace: operators, name: name}, management)
	asks := s.change
	s.change = func(p *v1.Pod) {
		asks(p)
		base := p.Spec.Containers[0]
		p.Spec.Containers = nil
		for _, part := range managedPods[name] {
			c := *base.DeepCopy()
			c.Name = part.name
			if part.annotation != "" {
				p.Annotations["resources.workload.openshift.io/"+part.name] = part.annotation
			}
			if name != "besteffort" {
				c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("16Mi")}
			}
			if part.cores > 0 {
				cores := v1.ResourceName(partition.WorkloadResource(management))
				c.Resources.Requests[cores] = *resource.NewQuantity(part.cores, resource.DecimalSI)
				c.Resources.Limits = v1.ResourceList{cores: *resource.NewQuantity(part.cores, resource.DecimalSI)}
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return s
}

// TestCRIOSideBySide: the same pods, first by CRI-O's own table of workloads without a partition,
// then by a partition without the table. Their containers have the same CPUs, weight and quota.
func TestCRIOSideBySide(t *testing.T) {
	onEach(t, kinds([]string{"crio"}, "crio"), func(t *testing.T, flavour string) {
		n, control := lab.JoinedForTest(t, lab.Options{Flavour: flavour, Files: programs()})
		if err := n.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := &workloads{evictor: &evictor{Node: n, control: control, leakers: map[string]bool{}}}
		w.namespace(t, operators)
		// No reload applies the section meanwhile.
		put := func(section string) {
			t.Helper()
			if err := n.CopyTo(t.Context(), kubeletConfig(t, section)); err != nil {
				t.Fatal(err)
			}
		}
		put(managementSection)
		table := run(t, n, monitorPath+" render crio --type="+management)
		put("")
		if err := n.WriteFile(t.Context(), crioTable, []byte(table+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		// CRI-O reads its table at its start alone.
		restart := func() {
			t.Helper()
			run(t, n, "systemctl restart "+runtimeUnit(flavour))
			if err := n.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		restart()
		want(t, n, "systemctl is-active "+monitorUnit+" || true", "inactive")
		w.pinned(t)
		for name := range managedPods {
			if err := control.Client().CoreV1().Pods(operators).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.gone(t, name)
		}
		run(t, n, "rm "+crioTable)
		restart()
		configure(t, n, managementSection)
		run(t, n, "systemctl start slices.target")
		becomes(t, n, "systemctl is-active "+monitorUnit+" || true", "active")
		w.hasCores(t, management, allCores)
		w.pinned(t)
	})
}

// pinned creates the pods, and waits until their containers have what they are to have. It reads
// the cgroup file system, and trusts no report. crun has the processes one cgroup further down.
func (w *workloads) pinned(t *testing.T) {
	t.Helper()
	for name := range managedPods {
		w.submit(t, managed(name))
	}
	for name, parts := range managedPods {
		pod, err := w.control.WaitPod(t.Context(), operators, name)
		if err != nil {
			t.Fatal(err)
		}
		ids := map[string]string{}
		for _, c := range pod.Status.ContainerStatuses {
			_, ids[c.Name], _ = strings.Cut(c.ContainerID, "://")
		}
		for _, part := range parts {
			becomes(t, w.Node, fmt.Sprintf("cd %s && scope=$(find kubepods.slice -type d -name crio-%s.scope) && in=$scope && "+
				"{ [ ! -e $scope/container ] || in=$scope/container; } && { "+
				"sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/$(head -n 1 $in/cgroup.procs)/status; cat $scope/cpu.weight; "+
				"cat $scope/cpu.max $in/cpu.max | grep -v max | sort -n | head -n 1; } | xargs", cgroupRoot, ids[part.name]), part.has)
		}
		w.neverRestarted(t, operators, name)
	}
}
