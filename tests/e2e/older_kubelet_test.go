//go:build node

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// olderKubelet is the end of the name of a node whose kubelet has no Pods API.
const olderKubelet = "+kubelet-1.35"

// TestOlderKubelet: without the Pods API the partition is up before the kubelet, members are placed
// when they are created, and a leaking one is evicted before the kernel kills in the partition. No
// other pod is touched, not even to move it. A converted pod has the CPU time that it requests.
// check says what is missing. The node is made by name alone: make test-older.
func TestOlderKubelet(t *testing.T) {
	older := slices.DeleteFunc(allFlavours(), func(name string) bool { return !strings.HasSuffix(name, olderKubelet) })
	onEach(t, kinds(older), func(t *testing.T, flavour string) {
		n, control := bootsJoined(t, flavour, programs())
		want(t, n, "kubelet --version | grep -o 'v1[.][0-9]*'", "v1.35")
		inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
		wantMetric(t, n, `nodepartition_placements_total{method="creation",partition="system",result="success"}`, 1)
		want(t, n, monitorPath+" check --move=auto | grep -o 'no pod is restarted to be moved'", "no pod is restarted to be moved")

		// What was placed wrong stays until its next start.
		e := &evictor{Node: n, control: control, leakers: map[string]bool{}}
		run(t, n, "systemctl stop "+monitorUnit)
		e.create(t, spec{namespace: members, name: "outside"})
		run(t, n, "systemctl start "+monitorUnit)
		eventually(t, n, "the pod outside is reported", func(ctx context.Context) (bool, string, error) {
			found, err := reportOf(ctx, n)
			for _, pod := range found.Pods {
				if pod.Name == "outside" {
					return pod.Misplaced == 1 && pod.Reason == report.UnknownPolicy, fmt.Sprintf("%+v", pod), err
				}
			}
			return false, "not in the report", err
		})
		e.remove(t, members, "outside")

		e.neighbours(t)
		e.leaks(t, leaker("leaker", "20Mi"))
		eventually(t, n, "the leaking pod is evicted", func(context.Context) (bool, string, error) {
			count := e.count(t)
			return count > 0, fmt.Sprint(count), nil
		})
		e.unharmed(t)
		e.converted(t)
		want(t, n, "systemctl --failed --plain --no-legend", "")
	})
}

// converted: the kubelet gives converted pods the weight of pods without a request. The monitor
// gives them what they request, in a namespace that is allowed and in one whose pods are members
// anyway. The partition has as much as its one CPU. Annotations in another namespace give nothing.
func (e *evictor) converted(t *testing.T) {
	t.Helper()
	configure(t, e.Node, evictionSection+"workloadPartitions:\n"+
		"  telemetry: {cpuset: \"0\", namespaces: [telemetry], allowedNamespaces: [operators]}\n")
	for _, name := range []string{"operators", "telemetry", "strangers"} {
		namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := e.control.Client().CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	becomes(t, e.Node, "systemctl is-active "+telemetry.Slice(), "active")
	const noLimit = "max 100000"
	all := map[string]string{}
	for _, step := range []struct {
		namespace, name, amount, annotation string
		slice, container, partition         string
	}{
		{"operators", "limited", "400", `{"cpushares":409,"cpulimit":500}`, "16 " + noLimit, "16 50000 100000", "16"},
		{"telemetry", "member", "300", `{"cpushares":307}`, "12 " + noLimit, "12 " + noLimit, "28"},
		{"operators", "large", "1k", `{"cpushares":1024}`, "39 " + noLimit, "39 " + noLimit, "39"},
	} {
		s := converted(step.name, step.amount, step.annotation)
		s.namespace = step.namespace
		e.create(t, s)
		kubelets, slice, container, _ := e.cpuOf(t, step.namespace, step.name)
		all[slice], all[container] = step.slice, step.container
		becomes(t, e.Node, slice, step.slice)
		becomes(t, e.Node, container, step.container)
		want(t, e.Node, kubelets, "1 "+noLimit)
		becomes(t, e.Node, "cat "+telemetry.Cgroup()+"/cpu.weight", step.partition)
		burstable := cgroupRoot + partition.CgroupPath(partition.QoSSlice(telemetry, v1.PodQOSBurstable))
		becomes(t, e.Node, "cat "+burstable+"/cpu.weight", step.partition)
	}
	s := converted("stranger", "200", `{"cpushares":204}`)
	s.namespace = "strangers"
	stranger := partition.CgroupPath(partition.PodSlice(partition.Default, v1.PodQOSBurstable, string(e.create(t, s).UID)))
	run(t, e.Node, "systemctl restart "+monitorUnit)
	becomes(t, e.Node, "busybox wget -q -O - "+monitorURL+"/readyz || true", "ok")
	want(t, e.Node, "cat "+cgroupRoot+stranger+"/cpu.weight", "1")
	for command, says := range all {
		becomes(t, e.Node, command, says)
	}
}
