//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/tests/lab"
)

// evictionSection is a partition of 512 MiB that evicts below 128 MiB: a leak of 20 MiB/s takes
// that much while the monitor starts again on an emulated node.
const evictionSection = `systemPartition:
  memoryLimit: 512Mi
  cpuset: "0-1"
  namespaces: [kube-system]
  evictionHard: {memory.available: 128Mi}
`

// evictor is a node with a control plane, whose partition has two neighbours: one within its
// request and one above it.
type evictor struct {
	*lab.Node
	control *lab.ControlPlane
	// before holds the containers that must not be touched, by pod.
	before map[string]string
	// controllers means that the control plane has controllers.
	controllers bool
	// leakers holds the UIDs of the pods of ramps. kernelKills counts the kernel's kills in them where
	// that was allowed.
	leakers     map[string]bool
	kernelKills int
}

const members = "kube-system"

func newEvictor(t *testing.T, flavour string, files ...lab.File) *evictor {
	t.Helper()
	n, control := joined(t, flavour, evictionSection, files...)
	e := &evictor{Node: n, control: control, leakers: map[string]bool{}}
	e.neighbours(t)
	return e
}

// neighbours creates the pods that must not be touched.
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
			if pod.Name == name && pod.Partition() == partition.System && pod.Containers > 0 && pod.Misplaced == 0 {
				return true, "", nil
			}
		}
		return false, fmt.Sprintf("%+v", report.Pods), nil
	})
}

// create creates a pod through the API and waits until it runs.
func (e *evictor) create(t *testing.T, s spec) *v1.Pod {
	t.Helper()
	e.submit(t, s)
	created, err := e.control.WaitPod(t.Context(), s.namespace, s.name)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// submit creates a pod through the API and does not wait for it.
func (e *evictor) submit(t *testing.T, s spec) {
	t.Helper()
	if err := e.begin(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// begin is submit for a goroutine that must not end the test.
func (e *evictor) begin(ctx context.Context, s spec) error {
	pod := s.pod()
	pod.Spec.NodeName = e.Hostname
	_, err := e.control.Client().CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// containers returns the phases and container IDs of all pods that are not to be evicted.
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

// patience bounds the start of several pods on an emulated node, which takes minutes.
const patience = 8 * time.Minute

// await waits for a condition that several pods have a part in.
func (e *evictor) await(t *testing.T, what string, cond func(context.Context) (bool, string, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := e.Eventually(ctx, what, cond); err != nil {
		t.Fatal(err)
	}
}

// evicted waits until a pod has ended as evicted, and returns it.
func (e *evictor) evicted(t *testing.T, name string) *v1.Pod {
	t.Helper()
	var pod *v1.Pod
	e.await(t, name+" evicted", func(ctx context.Context) (bool, string, error) {
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

// remove deletes a pod and waits until it is gone.
func (e *evictor) remove(t *testing.T, namespace, name string) {
	t.Helper()
	e.delete(t, namespace, name)
	e.gone(t, name)
}

// delete deletes a pod and does not wait.
func (e *evictor) delete(t *testing.T, namespace, name string) {
	t.Helper()
	grace := int64(0)
	if err := e.control.Client().CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
}

// gone waits until the kubelet no longer knows a pod.
func (e *evictor) gone(t *testing.T, name string) {
	t.Helper()
	eventually(t, e.Node, name+" gone", func(ctx context.Context) (bool, string, error) {
		pods, err := e.Pods(ctx)
		return err == nil && !slices.ContainsFunc(pods, func(p v1.Pod) bool { return p.Name == name }), "", err
	})
}

// kernelKillsAtLimit counts the kernel's kills at the limit of the partition. memory.events counts
// those too that the monitor has the kernel do, at the limit of a container.
const kernelKillsAtLimit = "journalctl -b -k -o cat --no-pager | awk '/oom-kill:constraint=.*,oom_memcg=\\/kubepods.slice\\/kubepods-system.slice,/ { n++ } END { print n + 0 }'"

// unharmed: only leakers were touched, and the kernel killed only where that was allowed.
func (e *evictor) unharmed(t *testing.T) {
	t.Helper()
	if after := e.containers(t); fmt.Sprint(after) != fmt.Sprint(e.before) {
		t.Errorf("containers before: %v\nand after: %v", e.before, after)
	}
	want(t, e.Node, kernelKillsAtLimit, strconv.Itoa(e.kernelKills))
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

// leaker returns a pod that grows by that much in a second.
func leaker(name, rate string) spec {
	return spec{namespace: members, name: name, requests: resources("10m", "16Mi"), command: []string{"/podtool", "grow", "8Mi", rate, "1Gi"}}
}

// evictionsFile is the file in which the monitor records evictions.
const evictionsFile = "/run/node-partition/monitor/evictions.json"

// history returns the monitor's record of evictions.
func (e *evictor) history(t *testing.T) evict.History {
	t.Helper()
	var h evict.History
	if err := json.Unmarshal([]byte(run(t, e.Node, "cat "+evictionsFile+" 2>/dev/null || echo '{}'")), &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// evictions returns the evictions of pods of a name.
func (e *evictor) evictions(t *testing.T, name string) []evict.Eviction {
	t.Helper()
	return slices.DeleteFunc(e.history(t).Last, func(v evict.Eviction) bool { return v.Name != name })
}

// TestEviction: a leaking pod of the partition is evicted, on each kind of node. On trixie
// TestEvictionRamps shows it.
func TestEviction(t *testing.T) {
	onEach(t, kinds(allFlavours(), "bookworm", "crio"), func(t *testing.T, flavour string) {
		newEvictor(t, flavour).slowGrowth(t, 1)
	})
}

// Messages of the monitor with priority warning or worse: when it evicts, when it cannot notify the
// API server, when a kubelet ends, when memory outlives its processes, and when the kernel was
// faster.
const (
	evicts       = "^(evicting a pod|stopping the containers of a pod)"
	failing      = "^(eviction error=|an eviction has ended with a problem|a step of an eviction failed|the event of an eviction could not be created)"
	disconnected = "^no connection, trying again"
	stays        = "^the memory of the system partition is low because of memory that (ending processes does not free|belongs to no pod)"
	kernelKilled = "^the kernel has killed processes in the system partition, at its limit"
)

// eviction is a part of a test on one node. evictions sets its Run from run.
type eviction struct {
	lab.Part
	run func(*evictor, *testing.T)
}

// evictions runs parts of a test on one node. They depend on neither the kernel nor the runtime,
// but on a runtime that places containers: after a live move some memory stays outside the
// partition, and the usage is not what they expect.
func evictions(t *testing.T, all ...eviction) {
	t.Helper()
	onOne(t, func(t *testing.T, flavour string) {
		var e *evictor
		parts := make([]lab.Part, 0, len(all))
		for _, one := range all {
			one.Run = func(t *testing.T, _ *lab.Node) { one.run(e, t) }
			parts = append(parts, one.Part)
		}
		lab.InTurn(t, func(t *testing.T) *lab.Node {
			e = newEvictor(t, flavour)
			return e.Node
		}, parts...)
	})
}

// slowGrowth: a leak is evicted, each time, and no other pod is affected.
func (e *evictor) slowGrowth(t *testing.T, times int) {
	t.Helper()
	for i := range times {
		name := fmt.Sprintf("leaker-%d", i)
		e.leaks(t, leaker(name, "20Mi"))
		e.evicted(t, name)
		e.unharmed(t)
		e.remove(t, members, name)
		if t.Failed() {
			t.Fatalf("after %d of %d", i, times)
		}
	}
	t.Logf("evicted %d times of %d", times, times)
}

// count returns the number of evictions in the monitor's metrics.
func (e *evictor) count(t *testing.T) float64 {
	t.Helper()
	sum := 0.0
	for _, threshold := range []evict.Threshold{evict.Hard, evict.Soft} {
		for _, method := range []evict.Method{evict.Evict, evict.Restart} {
			value, err := metric(t.Context(), e.Node, fmt.Sprintf(`nodepartition_evictions_total{dry_run="false",method=%q,partition="system",threshold=%q}`, method, threshold))
			if err != nil {
				t.Fatal(err)
			}
			sum += value
		}
	}
	return sum
}
