//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
	"nodepartition/tests/lab"
	"nodepartition/tests/program"
)

// evictionSection is a partition of 512 MiB that evicts below 128 MiB: what a leak of 20 MiB/s may take while the monitor starts
// again on an emulated node.
const evictionSection = `systemPartition:
  memoryLimit: 512Mi
  cpuset: "0-1"
  namespaces: [kube-system]
  evictionHard: {memory.available: 128Mi}
`

// evictor is a node with a control plane, whose partition has two neighbours: one within its request and one above it.
type evictor struct {
	*lab.Node
	control *lab.ControlPlane
	// before are the containers that must not be touched, by pod.
	before map[string]string
}

const members = "kube-system"

func newEvictor(t *testing.T, flavour string, files ...lab.File) *evictor {
	t.Helper()
	n, control := joined(t, flavour, evictionSection, files...)
	e := &evictor{Node: n, control: control}
	e.neighbours(t)
	return e
}

// neighbours makes the pods that nobody may touch.
func (e *evictor) neighbours(t *testing.T) {
	t.Helper()
	e.create(t, spec{namespace: members, name: "within", requests: resources("10m", "64Mi"), command: []string{"/podtool", "alloc", "32Mi"}})
	e.create(t, spec{namespace: members, name: "above", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "48Mi"}})
	e.create(t, spec{namespace: "default", name: "user", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "48Mi"}})
	for _, pod := range []string{"within", "above"} {
		e.placed(t, pod)
	}
	e.before = e.containers(t)
}

// placed waits until a member's container is in the partition.
func (e *evictor) placed(t *testing.T, name string) {
	t.Helper()
	eventually(t, e.Node, name+" in the partition", func(ctx context.Context) (bool, string, error) {
		report, err := reportOf(ctx, e.Node)
		if err != nil {
			return false, "", err
		}
		for _, pod := range report.Pods {
			if pod.Name == name && pod.Partition() == podmove.System && pod.Containers > 0 && pod.Misplaced == 0 {
				return true, "", nil
			}
		}
		return false, fmt.Sprintf("%+v", report.Pods), nil
	})
}

// create makes a pod through the API and waits until it runs.
func (e *evictor) create(t *testing.T, s spec) *v1.Pod {
	t.Helper()
	pod := s.pod()
	pod.Spec.NodeName = e.Hostname
	if _, err := e.control.Client().CoreV1().Pods(s.namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	created, err := e.control.WaitPod(t.Context(), s.namespace, s.name)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// containers are the phases and container IDs of all pods that are not to be evicted.
func (e *evictor) containers(t *testing.T) map[string]string {
	t.Helper()
	list, err := e.control.Client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for i := range list.Items {
		pod := &list.Items[i]
		if strings.HasPrefix(pod.Name, "leaker") {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			ids[pod.Namespace+"/"+pod.Name] = string(pod.Status.Phase) + " " + c.ContainerID
		}
	}
	return ids
}

// evicted waits until a pod has ended as one that was evicted, and returns it.
func (e *evictor) evicted(t *testing.T, name string) *v1.Pod {
	t.Helper()
	var pod *v1.Pod
	eventually(t, e.Node, name+" evicted", func(ctx context.Context) (bool, string, error) {
		var err error
		pod, err = e.control.Client().CoreV1().Pods(members).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		ended := len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Terminated != nil
		return pod.Status.Phase == v1.PodFailed && pod.Status.Reason == "Evicted" && ended,
			fmt.Sprintf("%s %s %+v", pod.Status.Phase, pod.Status.Reason, pod.Status.ContainerStatuses), nil
	})
	return pod
}

// failed waits until a pod has ended for good. Between the death of its processes and the next start of the monitor the kubelet may have
// started its container again. When that one ends with status 0, the kubelet drops the reason of the phase, and leaves the phase
// and the condition (generateAPIPodStatus, 1.37.0).
func (e *evictor) failed(t *testing.T, name string) {
	t.Helper()
	eventually(t, e.Node, name+" failed", func(ctx context.Context) (bool, string, error) {
		pod, err := e.control.Client().CoreV1().Pods(members).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		target := slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
		})
		ended := len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Terminated != nil
		return pod.Status.Phase == v1.PodFailed && target && ended, fmt.Sprintf("%+v", pod.Status), nil
	})
}

// remove deletes a pod and waits until it is gone.
func (e *evictor) remove(t *testing.T, namespace, name string) {
	t.Helper()
	grace := int64(0)
	if err := e.control.Client().CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	eventually(t, e.Node, name+" gone", func(ctx context.Context) (bool, string, error) {
		pods, err := e.Pods(ctx)
		return err == nil && !slices.ContainsFunc(pods, func(p v1.Pod) bool { return p.Name == name }), "", err
	})
}

// unharmed: nobody but leakers was touched, and the kernel killed nobody.
func (e *evictor) unharmed(t *testing.T) {
	t.Helper()
	if after := e.containers(t); fmt.Sprint(after) != fmt.Sprint(e.before) {
		t.Errorf("containers before: %v\nand after: %v", e.before, after)
	}
	want(t, e.Node, "awk '$1 == \"oom_kill\" { print $2 }' "+systemCgroup+"/memory.events", "0")
	node, err := e.control.Client().CoreV1().Nodes().Get(t.Context(), e.Hostname, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeMemoryPressure && c.Status != v1.ConditionFalse {
			t.Errorf("the node has MemoryPressure: %+v", c)
		}
	}
}

// leaker is a pod that grows by that much in a second.
func leaker(name, rate string) spec {
	return spec{namespace: members, name: name, requests: resources("10m", "16Mi"), command: []string{"/podtool", "grow", "8Mi", rate, "1Gi"}}
}

// history is what the monitor has written down.
func (e *evictor) history(t *testing.T) evict.History {
	t.Helper()
	var h evict.History
	if err := json.Unmarshal([]byte(run(t, e.Node, "cat /run/node-partition/monitor/evictions.json 2>/dev/null || echo '{}'")), &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// evictions are those of pods of a name.
func (e *evictor) evictions(t *testing.T, name string) []evict.Eviction {
	t.Helper()
	return slices.DeleteFunc(e.history(t).Last, func(v evict.Eviction) bool { return v.Name != name })
}

// TestEviction: a pod of the partition that leaks is evicted, on each kind of node; on trixie TestEvictionReports shows it.
func TestEviction(t *testing.T) {
	onEach(t, kinds(allFlavours(), "bookworm", "crio"), func(t *testing.T, flavour string) {
		newEvictor(t, flavour).slowGrowth(t, 1)
	})
}

// The tests below are what depends on neither the kernel nor the runtime. After a live move some of the memory stays outside, and the
// figures are not what they expect: they need a runtime that places.

// TestEvictionReports: how an eviction looks to others, and to whom it does not happen.
func TestEvictionReports(t *testing.T) {
	evictions(t,
		eviction{name: "final state", run: (*evictor).finalState, complaints: []string{evicts, disconnected}},
		eviction{name: "page cache", run: (*evictor).pageCache},
		eviction{name: "user pod", run: (*evictor).userPod},
		eviction{name: "only spared pods", run: (*evictor).onlySpared, complaints: []string{"all its pods are spared"}, spends: true},
	)
}

// TestEvictionOrder: who goes first, and what a lowered limit does.
func TestEvictionOrder(t *testing.T) {
	evictions(t,
		eviction{name: "lowered limit", run: (*evictor).loweredLimit, complaints: []string{evicts, "keeping the present limit of 536870912 bytes until"}},
		eviction{name: "order", run: (*evictor).order, complaints: []string{disconnected}, spends: true},
	)
}

// TestEvictionWithout: an API server that is gone, rights that are missing, and a controller that makes the pod again.
func TestEvictionWithout(t *testing.T) {
	evictions(t,
		eviction{name: "controller", run: (*evictor).controller, complaints: []string{evicts}},
		eviction{name: "without rights", run: (*evictor).withoutRights, complaints: []string{evicts, failing}},
		eviction{name: "API server gone", run: (*evictor).apiServerGone, complaints: []string{evicts, failing}},
	)
}

// What the monitor says with priority warning or worse when it evicts, when it cannot tell the API server, and when a kubelet ends.
const (
	evicts       = "^(evicting a pod|stopping the containers of a pod)"
	failing      = "^(eviction error=|an eviction is through, and did not go as it should|a step of an eviction failed|the event of an eviction could not be made)"
	disconnected = "^no connection, trying again"
)

// eviction is a part of a test on one node, with what the monitor complains of meanwhile.
type eviction struct {
	name       string
	run        func(*evictor, *testing.T)
	complaints []string
	spends     bool // see lab.Part
}

// evictions runs parts of a test on one node.
func evictions(t *testing.T, all ...eviction) {
	t.Helper()
	onEach(t, kinds(slices.DeleteFunc(allFlavours(), func(name string) bool { return !placing(name) }), "trixie"), func(t *testing.T, flavour string) {
		var e *evictor
		parts := make([]lab.Part, 0, len(all))
		for _, one := range all {
			parts = append(parts, lab.Part{
				Name: one.name, Run: func(t *testing.T, _ *lab.Node) { one.run(e, t) }, Complaints: one.complaints, Spends: one.spends,
			})
		}
		lab.InTurn(t, func(t *testing.T) *lab.Node {
			e = newEvictor(t, flavour)
			return e.Node
		}, parts...)
	})
}

// TestSoakEviction: twenty times, and twenty times more with the monitor killed in the middle.
func TestSoakEviction(t *testing.T) {
	onEach(t, kinds(allFlavours(), allFlavours()...), func(t *testing.T, flavour string) {
		killer := filepath.Join(t.TempDir(), "killer")
		if err := program.Build("nodepartition/tests/e2e/killer", killer); err != nil {
			t.Fatal(err)
		}
		e := newEvictor(t, flavour, lab.File{Path: "/usr/local/bin/killer", Source: killer, Mode: 0o755})
		t.Run("slow growth", func(t *testing.T) { e.slowGrowth(t, 20) })
		t.Run("killed", func(t *testing.T) { e.killed(t, 20) })
	})
}

// slowGrowth: a leak is evicted, each time, and nobody else notices.
func (e *evictor) slowGrowth(t *testing.T, times int) {
	t.Helper()
	for i := range times {
		name := fmt.Sprintf("leaker-%d", i)
		e.create(t, leaker(name, "20Mi"))
		e.evicted(t, name)
		e.unharmed(t)
		e.remove(t, members, name)
		if t.Failed() {
			t.Fatalf("after %d of %d", i, times)
		}
	}
	t.Logf("evicted %d times of %d", times, times)
}

// finalState: the pod ends as the kubelet's own eviction leaves it.
func (e *evictor) finalState(t *testing.T) {
	e.create(t, leaker("leaker-final", "50Mi"))
	pod := e.evicted(t, "leaker-final")
	for _, part := range []string{"The system partition of the node was low on resource: memory. Threshold quantity: 128Mi, available: ",
		"Container main was using ", ", request is 16Mi, has larger consumption of memory."} {
		if !strings.Contains(pod.Status.Message, part) {
			t.Errorf("message %q lacks %q", pod.Status.Message, part)
		}
	}
	conditions := map[v1.PodConditionType]v1.PodCondition{}
	for _, c := range pod.Status.Conditions {
		conditions[c.Type] = c
	}
	if c := conditions[v1.DisruptionTarget]; c.Status != v1.ConditionTrue || c.Reason != v1.PodReasonTerminationByKubelet {
		t.Errorf("condition %+v", c)
	}
	if c := conditions[v1.PodReady]; c.Status != v1.ConditionFalse {
		t.Errorf("condition %+v", c)
	}
	eventually(t, e.Node, "an event", func(ctx context.Context) (bool, string, error) {
		events, err := e.control.Client().CoreV1().Events(members).List(ctx, metav1.ListOptions{FieldSelector: "reason=Evicted,involvedObject.name=leaker-final"})
		if err != nil {
			return false, "", err
		}
		return len(events.Items) == 1 && events.Items[0].Message == pod.Status.Message && events.Items[0].InvolvedObject.UID == pod.UID &&
			events.Items[0].Annotations["starved_resource"] == "memory", fmt.Sprint(events.Items), nil
	})
	// The kubelet keeps to it, and starts nothing again.
	run(t, e.Node, "systemctl restart kubelet.service")
	if err := e.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.evicted(t, "leaker-final")
	e.unharmed(t)
	want(t, e.Node, "journalctl -b -o cat --no-pager -u "+monitorUnit+" PARTITION_POD=leaker-final | grep -c '^evicting a pod'", "1")
	if text := run(t, e.Node, monitorPath+" status"); !strings.Contains(text, "leaker-final") || !strings.Contains(text, "WOULD GO") {
		t.Errorf("status does not show it:\n%s", text)
	}
	e.remove(t, members, "leaker-final")
}

// order: the monitor ranks pods as the kubelet does on the same node, which logs its order before it evicts. The kubelet ranks twins
// outside of the partition: its figures of pods inside are not to be relied on (docs/troubleshooting.md).
func (e *evictor) order(t *testing.T) {
	const twin = "leaker-twin-"
	pods := []spec{
		{name: "leaker-big", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "64Mi"}},
		{name: "leaker-small", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "32Mi"}},
		{name: "leaker-none", requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m")}, command: []string{"/podtool", "alloc", "24Mi"}},
		{name: "leaker-important", requests: resources("10m", "8Mi"), command: []string{"/podtool", "alloc", "96Mi"},
			change: func(p *v1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" }},
		{name: "leaker-modest", requests: resources("10m", "64Mi"), command: []string{"/podtool", "alloc", "16Mi"}},
	}
	for _, s := range pods {
		s.namespace = members
		e.create(t, s)
		e.placed(t, s.name)
		s.namespace, s.name = "default", strings.Replace(s.name, "leaker-", twin, 1)
		e.create(t, s)
	}
	ours := slices.DeleteFunc(e.ranked(t), others)
	// Estimated by what the runtime knows, without the kubelet's word, the order is the same, but for priorities.
	estimated := slices.DeleteFunc(e.ranked(t, "--pods-api-socket=/none"), others)
	t.Logf("by the kubelet's word: %v; estimated: %v", ours, estimated)
	if got, want := slices.DeleteFunc(slices.Clone(estimated), important), slices.DeleteFunc(slices.Clone(ours), important); !slices.Equal(got, want) {
		t.Errorf("estimated order %v, want %v", got, want)
	}
	// A threshold above what is there: the kubelet ranks all pods of the node, and evicts one after the other. With a grace period, for
	// which it has figures of all of them.
	run(t, e.Node, "systemctl stop "+monitorUnit)
	config := run(t, e.Node, "cat "+lab.KubeletConfigPath)
	if err := e.WriteFile(t.Context(), lab.KubeletConfigPath, []byte(config+
		"\nevictionSoft: {memory.available: 95%}\nevictionSoftGracePeriod: {memory.available: 40s}\nevictionMaxPodGracePeriod: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, e.Node, "systemctl restart kubelet.service")
	var theirs []string
	err := e.Eventually(t.Context(), "the kubelet's ranking of all twins", func(ctx context.Context) (bool, string, error) {
		out, err := e.Run(ctx, "journalctl -b -o cat --no-pager -u kubelet.service | grep 'pods ranked for eviction' || true")
		for line := range strings.Lines(out) {
			theirs = nil
			for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(` ",[]`, r) }) {
				if name, ok := strings.CutPrefix(word, "default/"+twin); ok {
					theirs = append(theirs, "leaker-"+name)
				}
			}
			// The kubelet's own list of pods has those too whose figures it lacks, and those come first.
			if len(theirs) == len(pods) {
				return true, "", nil
			}
		}
		return false, out, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ours, theirs) {
		t.Errorf("our order      %v\nthe kubelet's %v", ours, theirs)
	}
}

func others(name string) bool { return !strings.HasPrefix(name, "leaker-") }

func important(name string) bool { return name == "leaker-important" }

// ranked are the names of the partition's pods in the order that status shows, those that are spared too.
func (e *evictor) ranked(t *testing.T, flags ...string) []string {
	t.Helper()
	var status struct {
		Eviction struct {
			Order []struct{ Name string }
		}
	}
	out := run(t, e.Node, monitorPath+" status -o json "+strings.Join(flags, " "))
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(status.Eviction.Order))
	for _, c := range status.Eviction.Order {
		names = append(names, c.Name)
	}
	return names
}

// pageCache: a pod that writes and reads far more than the limit is not evicted for it.
func (e *evictor) pageCache(t *testing.T) {
	before := e.count(t)
	e.create(t, spec{namespace: members, name: "leaker-cache", requests: resources("10m", "8Mi"), command: []string{"sh", "-c",
		"dd if=/dev/zero of=/tmp/f bs=1M count=600 2>/dev/null; cat /tmp/f >/dev/null; touch /tmp/done; while true; do cat /tmp/f >/dev/null; done"},
		change: func(p *v1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-e", "/tmp/done"}}}, PeriodSeconds: 1}
		}})
	usage := file(t, e.Node, "kubepods.slice/kubepods-system.slice", "memory.current")
	if usage < 384<<20 {
		t.Errorf("the partition uses %d bytes: not enough page cache to cross the threshold", usage)
	}
	if after := e.count(t); after != before {
		t.Errorf("%v evictions, want %v", after, before)
	}
	e.unharmed(t)
	e.remove(t, members, "leaker-cache")
}

// count is how many evictions the monitor has counted.
func (e *evictor) count(t *testing.T) float64 {
	t.Helper()
	sum := 0.0
	for _, threshold := range []evict.Threshold{evict.Hard, evict.Soft} {
		for _, way := range []evict.Way{evict.Evict, evict.Restart} {
			value, err := metric(t.Context(), e.Node, fmt.Sprintf(`systempartition_evictions_total{dry_run="false",threshold=%q,way=%q}`, threshold, way))
			if err != nil {
				t.Fatal(err)
			}
			sum += value
		}
	}
	return sum
}

// userPod: a pod outside eats memory until the kubelet evicts it. Nobody in the partition goes for it.
func (e *evictor) userPod(t *testing.T) {
	before := e.count(t)
	hungry := spec{namespace: "default", name: "leaker-user", requests: resources("10m", "16Mi"), command: []string{"/podtool", "grow", "64Mi", "200Mi", "2Gi"}}
	e.create(t, hungry)
	eventually(t, e.Node, "2 GiB used outside", func(ctx context.Context) (bool, string, error) {
		out, err := e.Run(ctx, "cat "+cgroupRoot+"kubepods.slice/memory.current")
		used, _ := strconv.ParseUint(strings.TrimSpace(out), 10, 64)
		return used > 2<<30, out, err
	})
	if after := e.count(t); after != before {
		t.Errorf("%v evictions, want %v", after, before)
	}
	e.remove(t, "default", "leaker-user")
	e.unharmed(t)
}

// controller: a DaemonSet makes an evicted pod again. That one leaks as well, and is restarted and not evicted: the controller would
// make the next one for ever.
func (e *evictor) controller(t *testing.T) {
	if err := e.control.StartControllers(t.Context(), "daemonset-controller"); err != nil {
		t.Fatal(err)
	}
	const name = "leaker-set"
	labels := map[string]string{"app": name}
	pod := leaker(name, "40Mi").pod()
	pod.Spec.NodeName = e.Hostname
	sets := e.control.Client().AppsV1().DaemonSets(members)
	if _, err := sets.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var seen []evict.Eviction
	eventually(t, e.Node, "two evictions", func(context.Context) (bool, string, error) {
		seen = slices.DeleteFunc(e.history(t).Last, func(v evict.Eviction) bool { return !strings.HasPrefix(v.Name, name) })
		return len(seen) >= 2, fmt.Sprintf("%+v", seen), nil
	})
	if seen[0].Way != evict.Evict || seen[1].Way != evict.Restart || seen[0].UID == seen[1].UID || seen[0].Owner != seen[1].Owner {
		t.Errorf("first %+v\nthen  %+v\nwant one evicted for good, and the next one of the same owner restarted", seen[0], seen[1])
	}
	list, err := e.control.Client().CoreV1().Pods(members).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || string(list.Items[0].UID) != seen[1].UID {
		t.Errorf("%d pods of the set: %+v", len(list.Items), list.Items)
	}
	// It is the set that keeps its pods, so it goes first.
	if err := sets.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		e.remove(t, members, pod.Name)
	}
	e.unharmed(t)
}

// withoutRights: with a kubeconfig whose user may not do it, the containers are stopped, and the journal says what to grant.
func (e *evictor) withoutRights(t *testing.T) {
	config, err := e.control.KubeconfigOf("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.WriteFile(t.Context(), "/etc/kubernetes/nobody.conf", config, 0o600); err != nil {
		t.Fatal(err)
	}
	args := lab.File{Path: "/etc/default/node-partition", Data: []byte("PARTITION_MONITOR_ARGS=--kubeconfig=/etc/kubernetes/nobody.conf\n")}
	if err := e.CopyTo(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	run(t, e.Node, "systemctl restart "+monitorUnit)
	e.create(t, leaker("leaker-rights", "40Mi"))
	eventually(t, e.Node, "an eviction with a word on rights", func(context.Context) (bool, string, error) {
		seen := e.evictions(t, "leaker-rights")
		return len(seen) > 0 && seen[0].Way == evict.Restart && strings.Contains(seen[0].Problem, "nobody") && strings.Contains(seen[0].Problem, "not allowed"),
			fmt.Sprintf("%+v", seen), nil
	})
	pod, err := e.control.Client().CoreV1().Pods(members).Get(t.Context(), "leaker-rights", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.Reason == "Evicted" {
		t.Error("it was evicted without rights")
	}
	e.remove(t, members, "leaker-rights")
	run(t, e.Node, "rm /etc/default/node-partition /etc/kubernetes/nobody.conf && systemctl restart "+monitorUnit)
	e.unharmed(t)
}

// apiServerGone: without the API server the containers are stopped, and the kubelet starts them again.
func (e *evictor) apiServerGone(t *testing.T) {
	before := e.count(t)
	pod := e.create(t, leaker("leaker-api", "20Mi"))
	if err := e.control.Interrupt(); err != nil {
		t.Fatal(err)
	}
	// The kubelet tells nobody of restarts while the API server is away. That the container grows once more, and has to be stopped once more,
	// says that it was started again.
	var seen []evict.Eviction
	err := e.Eventually(t.Context(), "the container stopped, started again, and stopped again", func(context.Context) (bool, string, error) {
		seen = e.evictions(t, "leaker-api")
		return len(seen) >= 2, fmt.Sprintf("%+v", seen), nil
	})
	// Whatever came of it: those that follow need the API server.
	if err := errors.Join(err, e.control.Restore(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(seen[0].Problem, "cannot be reached") || seen[0].Way != evict.Restart || seen[1].Containers[0].ID == seen[0].Containers[0].ID {
		t.Errorf("first %+v\nthen  %+v", seen[0], seen[1])
	}
	if after := e.count(t); after < before+2 {
		t.Errorf("%v evictions counted, want 2 more than %v", after, before)
	}
	if failures, err := metric(t.Context(), e.Node, `systempartition_eviction_failures_total{step="api"}`); err != nil || failures == 0 {
		t.Errorf("%v failures of the API counted: %v", failures, err)
	}
	now, err := e.control.Client().CoreV1().Pods(members).Get(t.Context(), "leaker-api", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now.UID != pod.UID || now.Status.Reason == "Evicted" {
		t.Errorf("the pod was failed although its containers run again: %+v", now.Status)
	}
	e.remove(t, members, "leaker-api")
	if err := e.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.unharmed(t)
}

// loweredLimit: a limit below what is used is reached by eviction, in order, and not by the kernel. Without the first of the leakers the others
// are 32 MiB within what the lower limit leaves.
func (e *evictor) loweredLimit(t *testing.T) {
	for _, s := range []spec{
		{name: "leaker-1", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "120Mi"}},
		{name: "leaker-2", requests: resources("10m", "16Mi"), command: []string{"/podtool", "alloc", "64Mi"}},
		{name: "leaker-3", requests: resources("10m", "100Mi"), command: []string{"/podtool", "alloc", "48Mi"}},
	} {
		s.namespace = members
		e.create(t, s)
		e.placed(t, s.name)
	}
	configure(t, e.Node, strings.NewReplacer("512Mi", "256Mi", "128Mi", "32Mi").Replace(evictionSection))
	becomes(t, e.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(256<<20))
	e.evicted(t, "leaker-1")
	if others := len(e.evictions(t, "leaker-3")) + len(e.evictions(t, "within")); others != 0 {
		t.Errorf("%d pods within their request went for it", others)
	}
	want(t, e.Node, "awk '$1 == \"oom_kill\" { print $2 }' "+systemCgroup+"/memory.events", "0")
	configure(t, e.Node, evictionSection)
	becomes(t, e.Node, "cat "+systemCgroup+"/memory.max", strconv.Itoa(512<<20))
	for _, name := range []string{"leaker-1", "leaker-2", "leaker-3"} {
		e.remove(t, members, name)
	}
	e.unharmed(t)
}

// onlySpared: where all are spared nobody goes, and it is said.
func (e *evictor) onlySpared(t *testing.T) {
	for _, pod := range []string{"within", "above"} {
		e.remove(t, members, pod)
	}
	before := e.count(t)
	s := leaker("static-leaker", "50Mi")
	s.command[4] = "420Mi" // above the threshold, and below the limit: the kernel has nothing to do yet
	apply(t, e.Node, s)
	wantMetric(t, e.Node, "systempartition_eviction_nobody_left", 1)
	if after := e.count(t); after != before {
		t.Errorf("%v evictions, want %v", after, before)
	}
	want(t, e.Node, "journalctl -b -o cat --no-pager -u "+monitorUnit+" MESSAGE_ID=998cfafe9eb4487eb25a0de77a72d557 | grep -c 'all its pods are spared'", "1")
	remove(t, e.Node, s)
	wantMetric(t, e.Node, "systempartition_eviction_nobody_left", 0)
}

// killed: the monitor is killed at the moment that an eviction is written down, and up to some milliseconds later.
func (e *evictor) killed(t *testing.T, times int) {
	t.Helper()
	run(t, e.Node, fmt.Sprintf("systemd-run --unit=killer -p StandardOutput=file:/run/killer killer %s /run/node-partition/monitor/evictions.json %d", monitorUnit, times))
	becomes(t, e.Node, "head -1 /run/killer", "watching")
	for i := range times {
		name := fmt.Sprintf("leaker-killed-%d", i)
		pod := e.create(t, leaker(name, "20Mi"))
		e.failed(t, name)
		becomes(t, e.Node, "grep -c '^killed' /run/killer", strconv.Itoa(i+1))
		becomes(t, e.Node, "systemctl is-active "+monitorUnit, "active")
		eventually(t, e.Node, "the eviction is through", func(context.Context) (bool, string, error) {
			h := e.history(t)
			return len(h.Open) == 0, fmt.Sprintf("%+v", h.Open), nil
		})
		if all := e.evictions(t, name); len(all) != 1 || all[0].UID != string(pod.UID) || all[0].Way != evict.Evict || all[0].Problem != "" {
			t.Errorf("%d evictions of %s: %+v", len(all), name, all)
		}
		e.unharmed(t)
		e.remove(t, members, name)
		if t.Failed() {
			t.Fatalf("after %d of %d: %s", i, times, run(t, e.Node, "cat /run/killer"))
		}
	}
	t.Log(run(t, e.Node, "cat /run/killer"))
}
