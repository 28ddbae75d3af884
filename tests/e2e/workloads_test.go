//go:build node

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// The partitions of TestWorkloads, and the namespace of each.
const (
	telemetry partition.Name = "telemetry"
	batch     partition.Name = "batch-jobs"
)

func namespaceOf(p partition.Name) string {
	switch p {
	case partition.System:
		return members
	case partition.Default:
		return v1.NamespaceDefault
	default:
		return string(p)
	}
}

// sectionsOf returns a configuration with these partitions. All have the same limit, and each has
// other CPUs.
func sectionsOf(partitions ...partition.Name) string {
	cpus := map[partition.Name]string{partition.System: "0-1", telemetry: "0", batch: "1"}
	var system, others strings.Builder
	for _, p := range partitions {
		fields := fmt.Sprintf(`{memoryLimit: 384Mi, cpuset: "%s", namespaces: [%s], evictionHard: {memory.available: 128Mi}}`,
			cpus[p], namespaceOf(p))
		if p == partition.System {
			system.WriteString("systemPartition: " + fields + "\n")
			continue
		}
		others.WriteString("  " + string(p) + ": " + fields + "\n")
	}
	if others.Len() == 0 {
		return system.String()
	}
	return system.String() + "workloadPartitions:\n" + others.String()
}

// workloads is a node with three partitions, and a pod of each QoS class in each of them.
type workloads struct {
	*evictor
	// leaks holds the name of the pod that leaks in each partition. A second pod of the same name
	// would be restarted, and not evicted.
	leaks map[partition.Name]string
	leaky int
	late  int // rounds of pods that are created while something else happens
}

func newWorkloads(t *testing.T, flavour, sections string, files ...lab.File) *workloads {
	t.Helper()
	n, control := joined(t, flavour, sections, files...)
	return &workloads{
		evictor: &evictor{Node: n, control: control, leakers: map[string]bool{}}, leaks: map[partition.Name]string{},
	}
}

// TestWorkloads: each partition has its own pods, limits and evictions, and comes and goes without
// the others.
func TestWorkloads(t *testing.T) {
	// TestWorkloadTypes is on all.
	onEach(t, kinds([]string{"trixie", "bookworm"}, "trixie"), func(t *testing.T, flavour string) {
		w := newWorkloads(t, flavour, sectionsOf(partition.System, telemetry, batch))
		w.quiet(t)
		for _, step := range []struct {
			name string
			run  func(*testing.T)
		}{
			{"limits of each", w.limits},
			{"a hog in each", w.hogInEach},
			{"a hog in all at once", w.hogsAtOnce},
			{"one removed", w.oneRemoved},
			{"added again", w.addedAgain},
			{"the system partition removed", w.systemRemoved},
			{"all removed", w.allRemoved},
		} {
			if !t.Run(step.name, step.run) {
				return
			}
		}
	})
}

// quiet creates the pods that must not be touched, and waits until they are placed.
func (w *workloads) quiet(t *testing.T) {
	t.Helper()
	for _, p := range []partition.Name{telemetry, batch} {
		w.namespace(t, p)
	}
	for _, p := range []partition.Name{partition.System, telemetry, batch, partition.Default} {
		w.threePods(t, p)
	}
	w.placedIn(t, partition.System, telemetry, batch, partition.Default)
	w.before = w.containers(t)
}

// namespace creates the namespace of a partition.
func (w *workloads) namespace(t *testing.T, p partition.Name) {
	t.Helper()
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(p)}}
	if _, err := w.control.Client().CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// atOnce is the number of pods that are created at a time where their number does not matter. While
// an emulated node creates a dozen, each takes minutes, and NRI's two seconds pass (containerd
// 2.3.7).
const atOnce = 3

// threePods creates a pod of each QoS class in the namespace of a partition, and waits until they
// are placed.
func (w *workloads) threePods(t *testing.T, p partition.Name) {
	t.Helper()
	namespace, small := namespaceOf(p), resources("50m", "24Mi")
	w.submit(t, spec{namespace: namespace, name: "guaranteed", requests: small, limits: small})
	w.submit(t, spec{namespace: namespace, name: "burstable", requests: small, command: []string{"/podtool", "alloc", "32Mi"}})
	w.submit(t, spec{namespace: namespace, name: "besteffort"})
	w.placedIn(t, p)
}

// placedIn waits until the pods of these partitions run in them, by the cgroups of the node.
func (w *workloads) placedIn(t *testing.T, partitions ...partition.Name) {
	t.Helper()
	for _, p := range partitions {
		w.inPartition(t, namespaceOf(p), p)
	}
}

// inPartition waits until the three pods of a namespace run in the slices of a partition, in the
// containers that the API server has.
func (w *workloads) inPartition(t *testing.T, namespace string, p partition.Name) {
	t.Helper()
	for name, q := range map[string]v1.PodQOSClass{
		"guaranteed": v1.PodQOSGuaranteed, "burstable": v1.PodQOSBurstable, "besteffort": v1.PodQOSBestEffort,
	} {
		w.runsIn(t, namespace, name, p, q)
	}
}

// runsIn waits until the one container of a pod, which the API server has, runs in its slice of a
// partition.
func (w *workloads) runsIn(t *testing.T, namespace, name string, p partition.Name, q v1.PodQOSClass) {
	t.Helper()
	w.await(t, fmt.Sprintf("%s/%s in %s", namespace, name, p), func(ctx context.Context) (bool, string, error) {
		pod, err := w.control.Client().CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Running == nil {
			return false, "not running", err
		}
		_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
		slice := cgroupRoot + partition.CgroupPath(partition.PodSlice(p, q, string(pod.UID)))
		out, err := w.Run(ctx, "find "+slice+" -maxdepth 1 -name '*"+id+".scope' -not -name 'crio-conmon-*' 2>/dev/null | grep -c . || true")
		return strings.TrimSpace(out) == "1", "container " + id + " is elsewhere", err
	})
}

// limits: each slice has the limit and the CPUs of its section, and one eviction threshold.
func (w *workloads) limits(t *testing.T) {
	for p, cpus := range map[partition.Name]string{partition.System: "0-1", telemetry: "0", batch: "1"} {
		dir := cgroupRoot + partition.CgroupPath(p.Slice())
		want(t, w.Node, "cat "+dir+"/memory.max "+dir+"/cpuset.cpus | xargs", "402653184 "+cpus)
		wantMetric(t, w.Node, fmt.Sprintf(`nodepartition_eviction_threshold_bytes{partition=%q,threshold="hard"}`, p), 134217728)
		wantMetric(t, w.Node, fmt.Sprintf(`kubelet_partition_pods{partition=%q}`, p), w.pods(p))
	}
}

// pods returns the number of pods of a partition: three, and the node's own member.
func (w *workloads) pods(p partition.Name) float64 {
	if p == partition.System {
		return 4
	}
	return 3
}

// hogInEach: a pod that grows is evicted from its partition, and nothing else happens.
func (w *workloads) hogInEach(t *testing.T) {
	for _, p := range []partition.Name{telemetry, batch, partition.System} {
		w.leak(t, p)
		w.leaksEnd(t, p)
	}
}

// hogsAtOnce: the evictors of three partitions act at the same time.
func (w *workloads) hogsAtOnce(t *testing.T) {
	all := []partition.Name{telemetry, batch, partition.System}
	for _, p := range all {
		w.leak(t, p)
	}
	w.leaksEnd(t, all...)
}

func (w *workloads) leak(t *testing.T, p partition.Name) {
	t.Helper()
	w.leaky++
	w.leaks[p] = fmt.Sprintf("leaker-%d", w.leaky)
	s := leaker(w.leaks[p], "20Mi")
	s.namespace = namespaceOf(p)
	w.submit(t, s) // it may be evicted before the API server has seen it run
}

// leaksEnd waits until the leaking pods of partitions are evicted, and compares everything else.
func (w *workloads) leaksEnd(t *testing.T, partitions ...partition.Name) {
	t.Helper()
	for _, p := range partitions {
		w.await(t, "the leak in "+string(p)+" evicted", func(ctx context.Context) (bool, string, error) {
			pod, err := w.control.Client().CoreV1().Pods(namespaceOf(p)).Get(ctx, w.leaks[p], metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return pod.Status.Phase == v1.PodFailed && pod.Status.Reason == "Evicted", fmt.Sprintf("%s %s", pod.Status.Phase, pod.Status.Reason), nil
		})
	}
	if after := w.containers(t); !maps.Equal(after, w.before) {
		t.Errorf("containers before: %v\nand after: %v", w.before, after)
	}
	want(t, w.Node, "journalctl -b -k -o cat --no-pager | grep -c oom-kill:constraint= || true", "0")
	for _, p := range partitions {
		w.remove(t, namespaceOf(p), w.leaks[p])
	}
}

// configured gives the node other partitions.
func (w *workloads) configured(t *testing.T, partitions ...partition.Name) {
	t.Helper()
	configure(t, w.Node, sectionsOf(partitions...))
}

// untouched: the containers in these namespaces are the same as before.
func (w *workloads) untouched(t *testing.T, partitions ...partition.Name) {
	t.Helper()
	after := w.containers(t)
	for pod, id := range w.before {
		namespace, _, _ := strings.Cut(pod, "/")
		for _, p := range partitions {
			if namespace == namespaceOf(p) && after[pod] != id {
				t.Errorf("%s: container %s; want it untouched: %s", pod, after[pod], id)
			}
		}
	}
	w.before = after
}

// ended waits until a partition has no slice and no series.
func (w *workloads) ended(t *testing.T, p partition.Name) {
	t.Helper()
	becomes(t, w.Node, "test -e "+cgroupRoot+partition.CgroupPath(p.Slice())+" && echo there || echo gone", "gone")
	becomes(t, w.Node, "systemctl is-active "+p.Slice()+" || true", "inactive")
}

// oneRemoved: the pods of a partition that is removed go back, and the others stay.
func (w *workloads) oneRemoved(t *testing.T) {
	w.configured(t, partition.System, batch)
	w.inPartition(t, namespaceOf(telemetry), partition.Default)
	w.ended(t, telemetry)
	becomes(t, w.Node, "busybox wget -q -O - "+monitorURL+"/metrics | grep -c 'partition=\"telemetry\"' || true", "0")
	w.untouched(t, partition.System, batch, partition.Default)
	reload(t, w.Node) // which forgets nothing and finds nothing
	want(t, w.Node, "systemctl is-active "+monitorUnit, "active")
}

// addedAgain: a partition that comes while the monitor runs has slices, limits and pods.
func (w *workloads) addedAgain(t *testing.T) {
	w.configured(t, partition.System, telemetry, batch)
	w.placedIn(t, telemetry)
	w.untouched(t, partition.System, batch, partition.Default)
	w.limits(t)
	w.leak(t, telemetry)
	w.leaksEnd(t, telemetry)
}

// systemRemoved: the monitor follows the other partitions alone, and starts for them.
func (w *workloads) systemRemoved(t *testing.T) {
	w.configured(t, telemetry, batch)
	w.inPartition(t, members, partition.Default)
	w.ended(t, partition.System)
	w.untouched(t, telemetry, batch, partition.Default)
	run(t, w.Node, "systemctl restart "+monitorUnit)
	want(t, w.Node, "systemctl is-active "+monitorUnit, "active")
	w.placedIn(t, telemetry, batch)
	w.untouched(t, telemetry, batch, partition.Default, partition.System)
	w.leak(t, batch)
	w.leaksEnd(t, batch)
}

// allRemoved: the monitor ends with the last partition, and nothing of them is left.
func (w *workloads) allRemoved(t *testing.T) {
	w.configured(t)
	for _, p := range []partition.Name{telemetry, batch} {
		w.inPartition(t, namespaceOf(p), partition.Default)
		w.ended(t, p)
	}
	becomes(t, w.Node, "systemctl is-active "+monitorUnit+" || true", "inactive")
	w.untouched(t, partition.System, partition.Default)
}
