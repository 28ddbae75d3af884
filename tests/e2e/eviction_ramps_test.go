//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
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

// ramp is one method by which pods take the memory of the partition.
type ramp struct {
	kind string
	// edge means that memory may run out before an emulated node has polled twice. Then the kernel
	// kills, and the test checks in which pods.
	edge bool
	// rare means that only the soak has it.
	rare bool
	// run creates the pods, waits until they have been evicted as expected, and removes them.
	run func(e *evictor, t *testing.T, d drawn)
}

// ramps returns all kinds of ramps.
func ramps() []ramp {
	return []ramp{
		{kind: "slow", run: (*evictor).rampSlow},
		{kind: "fast", edge: true, run: (*evictor).rampFast},
		{kind: "at start", edge: true, run: (*evictor).rampAtStart},
		{kind: "tmpfs", run: (*evictor).rampTmpfs},
		{kind: "page cache", run: (*evictor).rampPageCache},
		{kind: "open files", run: (*evictor).rampOpenFiles},
		{kind: "two at once", run: (*evictor).rampTwo},
		{kind: "being deleted", run: (*evictor).rampDeleted},
		{kind: "Job", run: (*evictor).rampJob},
		{kind: "DaemonSet in cooldown", run: (*evictor).rampDaemonSet},
		{kind: "DaemonSet in cooldown, tmpfs", rare: true, run: (*evictor).rampDaemonSetTmpfs},
	}
}

// drawn is a ramp with its random parameters.
type drawn struct {
	ramp
	// name is the prefix of the names of its pods.
	name string
	// api means that the monitor has an API server.
	api bool
	// pick returns a number between two.
	pick func(low, high int) int
}

// middle always draws the middle.
func middle(low, high int) int { return (low + high) / 2 }

// mebibytes draws an amount of memory.
func (d drawn) mebibytes(low, high int) string { return strconv.Itoa(d.pick(low, high)) + "Mi" }

// pod returns a pod of a ramp.
func (d drawn) pod(suffix string, command ...string) spec {
	return spec{namespace: members, name: d.name + suffix, requests: resources("10m", "16Mi"), command: command}
}

// TestEvictionRamps: the pod that takes the memory is evicted and no other, however it takes it.
// There is one ramp of each kind. The rest covers the view of pods that are not evicted, a user
// without the right to evict, and an API server that is gone.
func TestEvictionRamps(t *testing.T) {
	evictions(t,
		eviction{lab.Part{Name: "slow, and its final state", Complaints: []string{evicts, disconnected}}, (*evictor).rampFinal},
		eviction{lab.Part{Name: "with API server", Complaints: []string{evicts, kernelKilled}}, (*evictor).rampsWithAPI},
		eviction{lab.Part{Name: "without API server", Complaints: []string{evicts, failing, stays}}, (*evictor).rampsWithoutAPI},
		eviction{lab.Part{Name: "user pod"}, (*evictor).userPod},
		eviction{lab.Part{Name: "without rights", Complaints: []string{evicts, failing}}, (*evictor).withoutRights},
		eviction{lab.Part{Name: "API server gone", Complaints: []string{evicts, failing}}, (*evictor).apiServerGone},
		eviction{lab.Part{Name: "only protected pods", Complaints: []string{"all its pods are protected"}, Spends: true}, (*evictor).onlyProtected},
	)
}

// rampFinal is the ramp of the kind slow. It also checks the final state.
func (e *evictor) rampFinal(t *testing.T) {
	e.ramp(t, drawn{ramp: ramp{kind: "slow", run: (*evictor).finalState}, name: "leaker-final", api: true})
}

// rampsWithAPI runs one of each of the other kinds. A failure ends it, because each of them needs a
// clean node.
func (e *evictor) rampsWithAPI(t *testing.T) {
	for _, r := range ramps() {
		if r.kind == "slow" || r.rare {
			continue
		}
		d := drawn{ramp: r, name: one(r), api: true, pick: middle}
		if !t.Run(r.kind, func(t *testing.T) { e.ramp(t, d) }) {
			t.FailNow()
		}
	}
}

// rampsWithoutAPI runs the one kind that ends differently without an API server. See withoutRights
// and apiServerGone for the others.
func (e *evictor) rampsWithoutAPI(t *testing.T) {
	e.withoutAPI(t)
	for _, r := range ramps() {
		if r.kind == "tmpfs" {
			e.ramp(t, drawn{ramp: r, name: one(r) + "-alone", pick: middle})
		}
	}
	e.withAPI(t)
}

// one returns the name for the pods of the only ramp of a kind. Pods with the same name count as
// one owner.
func one(r ramp) string { return "leaker-" + strings.ToLower(strings.ReplaceAll(r.kind, " ", "-")) }

// soakRamps draws ramps, with and without API server.
func soakRamps(t *testing.T, flavour string, number int, random *rand.Rand) {
	pick := func(low, high int) int { return low + random.IntN(high-low+1) }
	e := newEvictor(t, flavour)
	api := true
	for i := range number {
		if i%10 == 9 { // the monitor is started again for it
			if api = !api; api {
				e.withAPI(t)
			} else {
				e.withoutAPI(t)
			}
		}
		d := drawn{ramp: ramps()[pick(0, len(ramps())-1)], name: fmt.Sprintf("leaker-%d", i), api: api, pick: pick}
		begin := time.Now()
		t.Logf("%d: %s, with API server: %t", i, d.kind, d.api)
		e.ramp(t, d)
		t.Logf("%d: %s", i, time.Since(begin).Round(time.Second))
		if t.Failed() {
			t.Fatalf("after %d of %d", i, number)
		}
	}
}

// ramp runs one ramp and checks which pods were evicted or killed for it.
func (e *evictor) ramp(t *testing.T, d drawn) {
	t.Helper()
	before := e.account(t)
	d.run(e, t, d)
	after := e.through(t)
	for _, v := range after.evictions {
		if slices.ContainsFunc(before.evictions, func(old evict.Eviction) bool { return old.UID == v.UID && old.Time.Equal(v.Time) }) {
			continue
		}
		t.Logf("%s: %s with %d MiB left, and it used %d", v.Name, v.Method, v.AvailableBytes>>20, v.UsedBytes>>20)
		switch {
		case !e.leakers[v.UID] && !strings.HasPrefix(v.Name, d.name+"-"):
			t.Errorf("%s/%s went, and %s takes the memory: %+v", v.Namespace, v.Name, d.name, v)
		case v.UsedBytes < v.RequestBytes:
			t.Errorf("%s went with %d bytes of the %d that it requests", v.Name, v.UsedBytes, v.RequestBytes)
		}
	}
	if kills := after.kernelKills - before.kernelKills; kills > 0 {
		t.Logf("the kernel killed %d times", kills)
		if !d.edge {
			t.Error("and it need not have")
		}
		for _, uid := range e.killedPods(t) {
			if !e.leakers[uid] {
				t.Errorf("the kernel killed in pod %s; those that take the memory: %v", uid, e.leakers)
			}
		}
	}
	e.kernelKills = after.kernelKills
	e.unharmed(t)
}

// account holds the evictions and kills in the partition.
type account struct {
	// evictions lists those that the monitor knows, including unfinished ones, the oldest first. open
	// counts the unfinished ones.
	evictions []evict.Eviction
	open      int
	// kernelKills counts the kills of the kernel in the partition.
	kernelKills int
}

func (e *evictor) account(t *testing.T) account {
	t.Helper()
	a, kills := e.evictionsNow(t), run(t, e.Node, kernelKillsAtLimit)
	var err error
	if a.kernelKills, err = strconv.Atoi(kills); err != nil {
		t.Fatal(err)
	}
	return a
}

// evictionsNow returns an account without the kernel's kills.
func (e *evictor) evictionsNow(t *testing.T) account {
	t.Helper()
	state := run(t, e.Node, "cat "+evictionsFile+" 2>/dev/null || echo '{}'")
	var a account
	var h evict.History
	if err := json.Unmarshal([]byte(state), &h); err != nil {
		t.Fatal(err)
	}
	a.evictions, a.open = slices.Concat(h.Last, h.Open), len(h.Open)
	slices.SortFunc(a.evictions, func(a, b evict.Eviction) int { return a.Time.Compare(b.Time) })
	return a
}

// of returns the evictions of a pod.
func (a account) of(pod *v1.Pod) []evict.Eviction {
	return slices.DeleteFunc(a.evictions, func(v evict.Eviction) bool { return v.UID != string(pod.UID) })
}

// through waits until no eviction is under way.
func (e *evictor) through(t *testing.T) account {
	t.Helper()
	eventually(t, e.Node, "no eviction is under way", func(context.Context) (bool, string, error) {
		a := e.evictionsNow(t)
		return a.open == 0, fmt.Sprintf("%+v", a), nil
	})
	return e.account(t)
}

// killedPods returns the UIDs of the pods in which the kernel has killed at the limit of a cgroup,
// from the kernel's log.
func (e *evictor) killedPods(t *testing.T) []string {
	t.Helper()
	var uids []string
	out := run(t, e.Node, "journalctl -b -k -o cat --no-pager | grep -F oom-kill:constraint=")
	for line := range strings.Lines(out) {
		_, cgroup, _ := strings.Cut(line, "task_memcg=")
		cgroup, _, _ = strings.Cut(cgroup, ",")
		uid := cgroup // of a cgroup outside of pods
		if _, pod, ok := strings.Cut(cgroup, "-pod"); ok {
			pod, _, _ = strings.Cut(pod, ".slice")
			uid = strings.ReplaceAll(pod, "_", "-")
		}
		uids = append(uids, uid)
	}
	return uids
}

// leaks creates a pod, and does not wait for it.
func (e *evictor) leaks(t *testing.T, s spec) *v1.Pod {
	t.Helper()
	pod := s.pod()
	pod.Spec.NodeName = e.Hostname
	created, err := e.control.Client().CoreV1().Pods(s.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.leakers[string(created.UID)] = true
	return created
}

// goes waits until a pod has been evicted, by the method that fits d.api, and removes it.
func (e *evictor) goes(t *testing.T, d drawn, pod *v1.Pod) {
	t.Helper()
	if !d.api {
		e.recorded(t, d, pod)
		e.remove(t, members, pod.Name)
		return
	}
	e.evicted(t, pod.Name)
	e.recorded(t, d, pod)
	e.delete(t, members, pod.Name) // none of its containers runs
}

// recorded waits until the monitor has finished evicting a pod, and checks the method.
func (e *evictor) recorded(t *testing.T, d drawn, pod *v1.Pod) {
	t.Helper()
	method := evict.Restart
	if d.api {
		method = evict.Evict
	}
	var of []evict.Eviction
	eventually(t, e.Node, pod.Name+" has gone", func(context.Context) (bool, string, error) {
		a := e.account(t)
		of = a.of(pod)
		return len(of) > 0 && (a.open == 0 || !d.api), fmt.Sprintf("%+v", a), nil
	})
	if of[0].Method != method || d.api && len(of) > 1 {
		t.Errorf("it went %d times; want once or, without API server, by %s:\n%+v", len(of), method, of)
	}
}

// rampSlow is a leak.
func (e *evictor) rampSlow(t *testing.T, d drawn) {
	e.goes(t, d, e.leaks(t, d.pod("", "/podtool", "grow", d.mebibytes(8, 200), d.mebibytes(10, 40), "1Gi")))
}

// rampFast touches memory as fast as it can, with two threads, in a pod that the monitor knows.
func (e *evictor) rampFast(t *testing.T, d drawn) {
	e.ends(t, e.leaks(t, d.pod("", "/podtool", "rush", strconv.Itoa(d.pick(2, 5))+"s", strconv.Itoa(d.pick(1, 3)), "1Gi")))
}

// rampAtStart takes all memory at its first instruction.
func (e *evictor) rampAtStart(t *testing.T, d drawn) {
	e.ends(t, e.leaks(t, d.pod("", "/podtool", "alloc", "1Gi")))
}

// ends waits until the monitor has evicted a pod, or the kernel has killed in it, and removes it.
func (e *evictor) ends(t *testing.T, pod *v1.Pod) {
	t.Helper()
	eventually(t, e.Node, pod.Name+" has ended", func(ctx context.Context) (bool, string, error) {
		if len(e.account(t).of(pod)) > 0 {
			return true, "", nil
		}
		now, err := e.control.Client().CoreV1().Pods(members).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		for _, c := range now.Status.ContainerStatuses {
			if ended := c.LastTerminationState.Terminated; ended != nil && ended.Reason == "OOMKilled" {
				return true, "", nil
			}
		}
		return false, fmt.Sprintf("%+v", now.Status), nil
	})
	e.through(t)
	e.remove(t, members, pod.Name)
}

// rampTmpfs fills files in memory, which the end of the processes does not free. Without an API
// server the files stay, the monitor logs that, and no other pod is evicted for them.
func (e *evictor) rampTmpfs(t *testing.T, d drawn) {
	s := d.pod("", "/podtool", "fill", "/memory", d.mebibytes(20, 60), "1Gi")
	s.change = inMemory
	pod := e.leaks(t, s)
	if d.api {
		e.goes(t, d, pod)
		return
	}
	e.recorded(t, d, pod)
	// The processes had some MiB, too. Without them the partition may have enough memory again.
	uid := string(pod.UID)
	run(t, e.Node, fmt.Sprintf(
		"systemd-run -q --scope --slice=%s dd if=/dev/zero of=/var/lib/kubelet/pods/%s/volumes/kubernetes.io~empty-dir/memory/more bs=1M count=24 status=none",
		partition.PodSlice(partition.System, v1.PodQOSBurstable, uid), uid))
	wantMetric(t, e.Node, `nodepartition_eviction_without_candidate{partition="system"}`, 1)
	if of := e.evictions(t, pod.Name); len(of) != 1 || !strings.Contains(of[0].Problem, "are still there") {
		t.Errorf("it is not said that the memory stays: %+v", of)
	}
	e.remove(t, members, pod.Name)
	wantMetric(t, e.Node, `nodepartition_eviction_without_candidate{partition="system"}`, 0)
}

// inMemory gives a pod a folder in memory.
func inMemory(p *v1.Pod) {
	p.Spec.Volumes = []v1.Volume{{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = []v1.VolumeMount{{Name: "memory", MountPath: "/memory"}}
	}
}

// rampPageCache leaks beside a pod that reads more than the partition holds, again and again. No
// pod is evicted for the page cache. The leaking pod starts before the reader and leaks later: in a
// partition full of page cache, an emulated node takes half a minute to start a pod.
func (e *evictor) rampPageCache(t *testing.T, d drawn) {
	before := e.before
	pod := e.leaks(t, d.pod("", "/podtool", "leak", "12s", d.mebibytes(8, 150), d.mebibytes(20, 40), "1Gi"))
	reader := "reads-" + d.name
	e.create(t, spec{
		namespace: members, name: reader, requests: resources("10m", "8Mi"), command: []string{"/podtool", "read", "/tmp", d.mebibytes(5, 20), "450Mi"},
	})
	e.before = e.containers(t)
	eventually(t, e.Node, "page cache up to the limit", func(context.Context) (bool, string, error) {
		used := file(t, e.Node, "kubepods.slice/kubepods-system.slice", "memory.current")
		return used > 448<<20, strconv.FormatUint(used, 10), nil
	})
	e.goes(t, d, pod)
	e.unharmed(t)
	e.remove(t, members, reader)
	e.before = before
}

// rampOpenFiles leaks open files in a pod whose other container allocates memory. The inodes and
// names of the files count as slabs that the kernel could reclaim.
func (e *evictor) rampOpenFiles(t *testing.T, d drawn) {
	s := d.pod("", "/podtool", "open", "/memory", strconv.Itoa(d.pick(5000, 15000)), "300000")
	s.change = func(p *v1.Pod) {
		beside := *p.Spec.Containers[0].DeepCopy()
		beside.Name, beside.Command = "beside", []string{"/podtool", "alloc", d.mebibytes(230, 250)}
		p.Spec.Containers = append(p.Spec.Containers, beside)
		inMemory(p)
	}
	e.goes(t, d, e.leaks(t, s))
}

// rampTwo leaks in two pods at once. Both are evicted.
func (e *evictor) rampTwo(t *testing.T, d drawn) {
	first := e.leaks(t, d.pod("-a", "/podtool", "grow", d.mebibytes(8, 60), d.mebibytes(10, 30), "1Gi"))
	second := e.leaks(t, d.pod("-b", "/podtool", "grow", d.mebibytes(8, 60), d.mebibytes(10, 30), "1Gi"))
	e.goes(t, d, first)
	e.goes(t, d, second)
}

// rampDeleted leaks in a pod that was deleted and takes long to end.
func (e *evictor) rampDeleted(t *testing.T, d drawn) {
	const grace = int64(600)
	s := d.pod("", "/podtool", "deaf", "grow", "8Mi", d.mebibytes(10, 40), "1Gi")
	s.change = func(p *v1.Pod) { *p.Spec.TerminationGracePeriodSeconds = grace }
	pod := e.leaks(t, s)
	if _, err := e.control.WaitPod(t.Context(), members, pod.Name); err != nil {
		t.Fatal(err)
	}
	if err := e.control.Client().CoreV1().Pods(members).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.recorded(t, d, pod)
	e.gone(t, pod.Name)
}

// monitorDefaults is the file with the monitor's arguments.
const monitorDefaults = "/etc/default/node-partition"

// withoutAPI starts the monitor without a kubeconfig, and withAPI with the kubelet's.
func (e *evictor) withoutAPI(t *testing.T) {
	t.Helper()
	args := lab.File{Path: monitorDefaults, Data: []byte("PARTITION_MONITOR_ARGS=--kubeconfig=none\n")}
	if err := e.CopyTo(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	run(t, e.Node, "systemctl restart "+monitorUnit)
}

func (e *evictor) withAPI(t *testing.T) {
	t.Helper()
	run(t, e.Node, "rm "+monitorDefaults+" && systemctl restart "+monitorUnit)
}
