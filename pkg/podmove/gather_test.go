package podmove

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// node is a node in a folder, with the answers of its runtime and its kubelet.
type node struct {
	t           *testing.T
	root        string
	sandboxes   []cri.Sandbox
	containers  []cri.Container
	shares      map[string]uint64
	statusCalls int // counts calls of Status
	statusErr   error
	pids        map[string]int
	announced   []cri.Sandbox
	pods        map[types.UID]*kubelet.Pod
	silent      bool // the kubelet has reported pods, and is away
	err         error
}

func (n *node) Sandboxes(context.Context) ([]cri.Sandbox, error)    { return n.sandboxes, n.err }
func (n *node) Containers(context.Context) ([]cri.Container, error) { return n.containers, n.err }
func (n *node) Status(_ context.Context, id string) (cri.Status, error) {
	n.statusCalls++
	pid, running := n.pids[id]
	return cri.Status{Running: running, PID: pid, Resources: cri.Resources{Shares: n.shares[id]}}, n.statusErr
}
func (n *node) Announced(func(string) bool) []cri.Sandbox { return n.announced }
func (n *node) Pods() (map[types.UID]*kubelet.Pod, bool)  { return n.pods, n.pods != nil }
func (n *node) Answers() bool                             { return n.pods != nil && !n.silent }
func (n *node) gatherer() *Gatherer {
	return &Gatherer{Cgroups: cgroups.FS(n.root), Runtime: n, Kubelet: n, Announced: n, Proc: filepath.Join(n.root, "proc")}
}

// found returns the pods of the system partition's node.
func (g *Gatherer) found(ctx context.Context) ([]Pod, error) {
	pods, err := g.pods(ctx, []partition.Name{partition.System})
	return pods, err
}

func (n *node) cgroup(path string, files map[string]string) {
	n.t.Helper()
	dir := filepath.Join(n.root, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o644); err != nil {
			n.t.Fatal(err)
		}
	}
}

const (
	uidA       = "11111111-2222-3333-4444-555555555555"
	uidB       = "11111111-2222-3333-4444-666666666666"
	defaultA   = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	partitionA = "kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice/kubepods-system-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	partitionB = "kubepods.slice/kubepods-system.slice/kubepods-system-pod11111111_2222_3333_4444_666666666666.slice"
)

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, root: t.TempDir(), shares: map[string]uint64{}}
	n.cgroup(defaultA, map[string]string{"memory.max": "268435456", "cpu.weight": "4", "cpu.max": "50000 100000", "pids.max": "max"})
	n.cgroup(defaultA+"/cri-containerd-pause1.scope", nil)
	n.cgroup(defaultA+"/cri-containerd-one.scope", map[string]string{"cpu.weight": "4"})
	n.cgroup("kubepods.slice/kubepods-burstable.slice/not-a-pod.slice", nil)
	n.cgroup("kubepods.slice/kubepods-system.slice/kubepods-system-burstable.slice", nil)
	n.sandboxes = []cri.Sandbox{{ID: "pause1", UID: uidA, Namespace: "kube-system", Name: "a", Ready: true}}
	n.containers = []cri.Container{{ID: "one", SandboxID: "pause1", Name: "main", State: cri.Running}}
	return n
}

func (n *node) gather() []Pod {
	n.t.Helper()
	pods, err := n.gatherer().found(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	return pods
}

// only returns the only pod of a node.
func (n *node) only() Pod {
	n.t.Helper()
	pods := n.gather()
	if len(pods) != 1 {
		n.t.Fatalf("found %+v, want one pod", pods)
	}
	return pods[0]
}

func TestGatherer(t *testing.T) {
	n := newNode(t)
	n.pods = map[types.UID]*kubelet.Pod{uidA: {
		UID: uidA, RestartPolicy: v1.RestartPolicyAlways, GracePeriod: 3 * time.Second, MilliCPU: 100,
		Containers: map[string]kubelet.Container{"main": {}},
	}}
	pods := n.gather()
	if len(pods) != 1 {
		t.Fatalf("pods %+v", pods)
	}
	pod := pods[0]
	if pod.QoS != v1.PodQOSBurstable || !pod.Ready || !pod.Exists || pod.MilliCPU != 100 || pod.Kubelet == nil || pod.Kubelet.GracePeriod != 3*time.Second {
		t.Errorf("pod is %+v", pod)
	}
	want := cgroups.Limits{MemoryMax: 256 << 20, MemoryHigh: cgroups.Unlimited, CPUWeight: 4, CPUQuotaPerSec: 500_000, CPUQuotaPeriod: 100_000, TasksMax: cgroups.Unlimited}
	if !pod.DefaultCgroup.Exists || pod.DefaultCgroup.Limits != want || pod.Partitions[0].Exists || pod.Partitions[0].Slice != filepath.Base(partitionA) {
		t.Errorf("default slice %+v, partition slice %+v", pod.DefaultCgroup, pod.Partitions[0])
	}
	if len(pod.Containers) != 1 {
		t.Fatalf("containers %+v: the sandbox's own is none", pod.Containers)
	}
	c := pod.Containers[0]
	if !c.Running || !c.Restarts || c.Slice != pod.DefaultCgroup.Slice || c.Unit != "cri-containerd-one.scope" || c.OwnCgroups {
		t.Errorf("container %+v", c)
	}
	if n.statusCalls != 0 {
		t.Errorf("Status was called %d times for requests that the kubelet reports", n.statusCalls)
	}
}

func TestGathererNoPodsAPI(t *testing.T) {
	n := newNode(t)
	n.shares["one"] = 102
	g := n.gatherer()
	for range 3 {
		pods, err := g.found(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if pod := pods[0]; pod.Kubelet != nil || pod.MilliCPU != 100 {
			t.Errorf("pod %+v; want its request by its containers' shares", pod)
		}
	}
	if n.statusCalls != 1 {
		t.Errorf("Status was called %d times for the same container", n.statusCalls)
	}
}

// TestGathererAnnotated: without the Pods API a pod has the CPU time of its sandbox's annotations.
// An init container that has ended takes no part, and a container that is started again does. Once
// the kubelet reports the pod, its annotations say nothing.
func TestGathererAnnotated(t *testing.T) {
	n := newNode(t)
	n.shares["one"] = 102 // of a request of CPU beside it
	n.sandboxes[0].Ask.Type = "telemetry"
	n.sandboxes[0].Requested = admission.Annotated(map[string]string{
		"io.openshift.workload.telemetry.cpushares/main": "400", "io.openshift.workload.telemetry.cpushares/init": "200",
	}, "telemetry")
	init := cri.Container{ID: "init", SandboxID: "pause1", Name: "init", State: cri.Running}
	for _, test := range []struct {
		states []cri.State
		want   int64
	}{
		{nil, 600}, {[]cri.State{cri.Running}, 600}, {[]cri.State{cri.Exited}, 400}, {[]cri.State{cri.Exited, cri.Created}, 600},
	} {
		n.containers = n.containers[:1]
		for _, state := range test.states {
			init.State = state
			n.containers = append(n.containers, init)
		}
		pod := n.only()
		main := pod.Containers[slices.IndexFunc(pod.Containers, func(c Container) bool { return c.Name == "main" })]
		if pod.Annotated.Request != test.want || main.asked.Request != 400 || main.MilliCPU != 100 {
			t.Errorf("init containers %v: pod %+v, container %+v; want %d and 400", test.states, pod.Annotated, main, test.want)
		}
	}
	n.pods = map[types.UID]*kubelet.Pod{uidA: {UID: uidA, Containers: map[string]kubelet.Container{"main": {}}}}
	if pod := n.only(); pod.Annotated.Type != "" || pod.Containers[len(pod.Containers)-1].asked.Request != 0 {
		t.Errorf("a pod that the kubelet reports: %+v", pod)
	}
}

// TestGathererEndedContainerScore: without the Pods API the resources of a container that has ended
// are read, because its score shows the priority of its pod. It requests nothing, and no reconcile
// fails because the runtime has just removed it.
func TestGathererEndedContainerScore(t *testing.T) {
	n := newNode(t)
	n.shares["one"] = 102
	n.containers[0].State = cri.Exited
	if pod := n.only(); pod.Containers[0].Resources.Shares != 102 || pod.MilliCPU != 0 {
		t.Errorf("pod %+v; want the resources of its container, and no request", pod)
	}
	n.statusErr = errors.New("no such container")
	if pod := n.only(); pod.Containers[0].Resources.Shares != 0 {
		t.Errorf("container %+v", pod.Containers[0])
	}
}

func TestGathererOwnCgroups(t *testing.T) {
	n := newNode(t)
	n.cgroup(defaultA+"/cri-containerd-one.scope/init", nil)
	if pod := n.only(); !pod.Containers[0].OwnCgroups {
		t.Errorf("%+v: want it known that the container has cgroups of its own", pod.Containers[0])
	}
}

func TestGathererLeftOverSlice(t *testing.T) {
	n := newNode(t)
	n.cgroup(partitionB, nil)
	pods := n.gather()
	d := Decide(snapshot(nil, pods...))
	if len(d.Stop) != 1 || d.Stop[0].Slice != filepath.Base(partitionB) {
		t.Errorf("stops %+v, want the slice of a pod that is gone", d.Stop)
	}
	// The kubelet still has its own slice, because it has yet to unmount what the pod wrote into
	// memory.
	defaultB := "kubepods.slice/" + partition.PodSlice(partition.Default, v1.PodQOSGuaranteed, uidB)
	n.cgroup(defaultB, nil)
	if d := Decide(snapshot(nil, n.gather()...)); len(d.Stop) != 0 {
		t.Errorf("stops %+v, whose memory may be there", d.Stop)
	}
	removeAll(t, filepath.Join(n.root, defaultB))
	// Its sandbox has begun: the runtime announced it, and does not list it yet.
	n.announced = []cri.Sandbox{{ID: "pause2", UID: uidB, Namespace: "kube-system", Name: "b", Ready: true}}
	pods = n.gather()
	if d := Decide(snapshot(nil, pods...)); len(d.Stop) != 0 {
		t.Errorf("stops %+v of a pod that begins", d.Stop)
	}
}

// passes returns a function that makes one reconcile after the other.
func passes(n *node) func() Decision {
	g := n.gatherer()
	return func() Decision {
		n.t.Helper()
		pods, err := g.found(n.t.Context())
		if err != nil {
			n.t.Fatal(err)
		}
		return Decide(snapshot(nil, pods...))
	}
}

// TestGathererLeftOverScope: the creation of a container was cut short, and its empty scope stays.
// It is ended when it has been empty for a while. Whose scopes are left alone, TestGathererOutlived
// shows.
func TestGathererLeftOverScope(t *testing.T) {
	const (
		id    = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		scope = "cri-containerd-" + id + ".scope"
	)
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.cgroup(partitionB+"/"+scope, map[string]string{"cgroup.events": "populated 0\nfrozen 0"})
		n.cgroup(partitionB+"/crio-conmon-one.scope", map[string]string{"cgroup.events": "populated 0"})
		pass := passes(n)
		if d := pass(); len(d.KillScopes) != 0 || !d.Wait {
			t.Errorf("at first: ends %q, waits %t", d.KillScopes, d.Wait)
		}
		<-time.After(leftOverAge)
		if d := pass(); !slices.Equal(d.KillScopes, []string{scope}) {
			t.Errorf("ends %q; want %s", d.KillScopes, scope)
		}
		// It is still there. It is not ended again with each reconcile.
		if d := pass(); len(d.KillScopes) != 0 || d.Wait {
			t.Errorf("right afterwards: ends %q, waits %t", d.KillScopes, d.Wait)
		}
		<-time.After(endAgain)
		if d := pass(); !slices.Equal(d.KillScopes, []string{scope}) {
			t.Errorf("later ends %q; want %s", d.KillScopes, scope)
		}
	})
}

// TestGathererLeftOverScopeStarts: a scope that is empty only while systemd starts it is not ended.
func TestGathererLeftOverScopeStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scope = partitionB + "/cri-containerd-two.scope"
		n := newNode(t)
		pass := passes(n)
		n.cgroup(scope, map[string]string{"cgroup.events": "populated 0"})
		pass()
		<-time.After(leftOverAge - 1)
		if d := pass(); len(d.KillScopes) != 0 || !d.Wait {
			t.Errorf("ends %q, waits %t, while systemd may still start it", d.KillScopes, d.Wait)
		}
		n.cgroup(scope, map[string]string{"cgroup.events": "populated 1"})
		<-time.After(time.Second)
		pass()
		n.cgroup(scope, map[string]string{"cgroup.events": "populated 0"})
		if d := pass(); len(d.KillScopes) != 0 {
			t.Errorf("ends %q, which has just become empty", d.KillScopes)
		}
	})
}

func TestGathererLiveMoved(t *testing.T) {
	n := newNode(t)
	n.cgroup(partitionA, map[string]string{"memory.max": "max"})
	if err := os.RemoveAll(filepath.Join(n.root, defaultA, "cri-containerd-one.scope")); err != nil {
		t.Fatal(err)
	}
	n.cgroup(partitionA+"/partition-cri-containerd-one.scope", map[string]string{"cpu.weight": "4"})
	n.cgroup(defaultA, map[string]string{"memory.current": "9000"})
	n.cgroup(defaultA+"/cri-containerd-pause1.scope", map[string]string{"memory.current": "2000"})
	pod := n.only()
	if len(pod.Orphans) != 0 || pod.DefaultCgroup.Bytes != 7000 || pod.Containers[0].Slice != pod.Partitions[0].Slice {
		t.Errorf("pod is %+v, want its container in the partition and 7000 bytes outside", pod)
	}
	d := Decide(snapshot(nil, pod))
	if d.Pods[0].LiveMoved != 1 || d.Pods[0].OutsideBytes != 7000 || d.Move != nil {
		t.Errorf("reported %+v", d.Pods[0])
	}
	// Its process has ended, but not what that process started in the node's PID namespace.
	n.containers[0].State = cri.Exited
	if pod := n.only(); len(pod.Orphans) != 1 {
		t.Errorf("orphans %+v, want the scope", pod.Orphans)
	}
	n.containers = nil
	// A single answer of the runtime without the container, or without the pod, ends nothing.
	n.cgroup(partitionA+"/partition-cri-containerd-one.scope", map[string]string{"cgroup.events": "populated 1"})
	if d := Decide(snapshot(nil, n.gather()...)); len(d.KillScopes) > 0 || len(d.Outlived) != 1 || d.Outlived[0].Due {
		t.Errorf("kills %+v, reports %+v; want the scope of a container that was removed, not due yet", d.KillScopes, d.Outlived)
	}
	n.sandboxes = nil
	n.cgroup(partitionA+"/partition-cri-containerd-one.scope", map[string]string{"cgroup.events": "populated 1"})
	removeAll(t, filepath.Join(n.root, defaultA))
	if d := Decide(snapshot(nil, n.gather()...)); len(d.KillScopes) > 0 || len(d.Outlived) != 1 || d.Outlived[0].Due {
		t.Errorf("kills %+v, reports %+v; want the scope of a pod that is gone, not due yet", d.KillScopes, d.Outlived)
	}
}

func TestGathererHalfMoved(t *testing.T) {
	n := newNode(t)
	n.cgroup(partitionA+"/partition-cri-containerd-one.scope", map[string]string{"memory.current": "1"})
	n.pods = map[types.UID]*kubelet.Pod{uidA: {RestartPolicy: v1.RestartPolicyAlways}}
	pod := n.only()
	for state, want := range map[NRIState]string{Unavailable: "cri-containerd-one.scope"} {
		d := Decide(snapshot(func(s *Snapshot) { s.NRI = state }, pod))
		if d.Move == nil || d.Move.Containers[0].Unit != want {
			t.Errorf("move is %+v, want the rest in %s moved", d.Move, want)
		}
		d = Decide(snapshot(func(s *Snapshot) { s.NRI = state; switchOff(s) }, pod))
		if d.Move == nil || d.Move.Containers[0].Unit != "partition-"+want {
			t.Errorf("switched off, move is %+v, want what was moved back in %s", d.Move, want)
		}
	}
}

// TestGathererForeignCgroup: a pod whose containers run outside its slices is misplaced, and the
// report has their cgroup: with the cgroupfs driver, in a virtual machine, or moved by another
// program.
func TestGathererForeignCgroup(t *testing.T) {
	const driver = "/kubepods/burstable/pod" + uidA + "/one"
	for name, test := range map[string]struct {
		change func(*node)
		where  string // as in the report
		reason report.Reason
	}{
		"another driver": {
			func(n *node) {
				removeAll(n.t, filepath.Join(n.root, defaultA))
				n.process(driver)
			}, driver, report.Foreign,
		},
		"another place": {
			func(n *node) {
				removeAll(n.t, filepath.Join(n.root, defaultA, "cri-containerd-one.scope"))
				n.process("/kata/one")
			}, "/kata/one", report.Foreign,
		},
		"process not reported": {
			func(n *node) {
				removeAll(n.t, filepath.Join(n.root, defaultA, "cri-containerd-one.scope"))
				n.pids = map[string]int{"one": 0}
			}, nowhere, report.Foreign,
		},
		"a virtual machine in the sandbox's unit": {
			func(n *node) {
				removeAll(n.t, filepath.Join(n.root, defaultA, "cri-containerd-one.scope"))
				n.process("/" + defaultA + "/cri-containerd-pause1.scope")
			}, filepath.Base(defaultA), report.Foreign,
		},
		// CRI-O and others may name it like this.
		"a unit of another name": {
			func(n *node) {
				removeAll(n.t, filepath.Join(n.root, defaultA, "cri-containerd-one.scope"))
				n.process("/" + partitionA + "/vm/one")
			}, filepath.Base(partitionA), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			test.change(n)
			g := n.gatherer()
			for range 3 {
				pods, err := g.found(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				d := Decide(snapshot(nil, pods...))
				if len(d.Pods) != 1 || d.Pods[0].Slice != test.where || d.Pods[0].Reason != test.reason || d.Pods[0].Containers != 1 {
					t.Fatalf("reported %+v, want it in %s", d.Pods, test.where)
				}
				if (d.Pods[0].Partition() == partition.System) != (test.reason == "") {
					t.Errorf("counted in the partition %s", d.Pods[0].Partition())
				}
				if d.Wait || d.Move != nil {
					t.Errorf("waits: %t, moves %+v; want neither", d.Wait, d.Move)
				}
			}
			if n.statusCalls != 2 { // for its resources, and for its place
				t.Errorf("Status was called %d times for the same container", n.statusCalls)
			}
		})
	}
}

// TestGathererEndedContainer: a container that has ended since the runtime listed it has no place,
// and causes no error.
func TestGathererEndedContainer(t *testing.T) {
	n := newNode(t)
	removeAll(t, filepath.Join(n.root, defaultA, "cri-containerd-one.scope"))
	for name, pids := range map[string]map[string]int{"the runtime reports it": nil, "its process is gone": {"one": 4711}} {
		n.pids = pids
		if c := n.only().Containers[0]; c.Foreign || c.Slice != "" {
			t.Errorf("%s: container %+v", name, c)
		}
	}
}

// process puts the first process of the container "one" into a cgroup.
func (n *node) process(cgroup string) {
	n.t.Helper()
	const pid = 4711
	n.pids = map[string]int{"one": pid}
	dir := filepath.Join(n.root, "proc", strconv.Itoa(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte("1:name=other:/\n0::"+cgroup+"\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// TestGathererEphemeralContainer: a container for debugging, and one that the kubelet does not
// report, would not be started again. While it runs outside, its pod is not restarted, but may be
// moved live.
func TestGathererEphemeralContainer(t *testing.T) {
	for name, known := range map[string]map[string]kubelet.Container{
		"reported": {"main": {}, "debugger-abcde": {Ephemeral: true}},
		"unknown":  {"main": {}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.cgroup(defaultA+"/cri-containerd-dbg.scope", nil)
			n.containers = append(n.containers, cri.Container{ID: "dbg", SandboxID: "pause1", Name: "debugger-abcde", State: cri.Running})
			n.pods = map[types.UID]*kubelet.Pod{uidA: {UID: uidA, RestartPolicy: v1.RestartPolicyAlways, Containers: known}}
			pods := n.gather()
			if d := Decide(snapshot(nil, pods...)); d.Move != nil || d.Pods[0].Reason != report.RestartPolicy {
				t.Errorf("move %+v, reported %+v; want the session left alone", d.Move, d.Pods)
			}
			d := Decide(snapshot(func(s *Snapshot) { s.NRI = Unavailable }, pods...))
			if d.Move == nil || len(d.Move.Containers) != 2 {
				t.Errorf("move %+v, want both moved live", d.Move)
			}
			// When the session is over, the pod is moved.
			n.containers[1].State = cri.Exited
			removeAll(t, filepath.Join(n.root, defaultA, "cri-containerd-dbg.scope"))
			d = Decide(snapshot(nil, n.gather()...))
			if d.Move == nil || len(d.Move.Containers) != 1 || d.Move.Containers[0].Name != "main" {
				t.Errorf("move %+v, want the pod's own container", d.Move)
			}
		})
	}
}

// TestGathererQoSChange: a static pod with a UID of its own is rewritten from burstable to
// guaranteed. The old slice is stopped, the new one has its limits, and the container is in its
// place.
func TestGathererQoSChange(t *testing.T) {
	const (
		defaultSlice   = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice"
		partitionSlice = "kubepods.slice/kubepods-system.slice/kubepods-system-pod11111111_2222_3333_4444_555555555555.slice"
	)
	n := newNode(t)
	removeAll(t, filepath.Join(n.root, defaultA))
	n.cgroup(partitionA, map[string]string{"memory.max": "268435456"})
	n.cgroup(defaultSlice, map[string]string{"memory.max": "1048576000", "cpu.weight": "39", "cpu.max": "max 100000", "pids.max": "max"})
	n.cgroup(partitionSlice+"/cri-containerd-one.scope", nil)
	d := Decide(snapshot(nil, n.gather()...))
	if len(d.Pods) != 1 || d.Pods[0].Reason != "" || d.Pods[0].Slice != filepath.Base(partitionSlice) || d.Pods[0].Containers != 1 {
		t.Errorf("reported %+v", d.Pods)
	}
	if len(d.Ensure) != 1 || d.Ensure[0].Name != filepath.Base(partitionSlice) || d.Ensure[0].Limits.MemoryMax != 1048576000 {
		t.Errorf("ensures %+v, want the new slice with its limits", d.Ensure)
	}
	if len(d.Stop) != 1 || d.Stop[0].Slice != filepath.Base(partitionA) {
		t.Errorf("stops %+v, want the old slice", d.Stop)
	}
}
