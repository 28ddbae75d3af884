//go:build node

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// stormReturns is the number of times that a leaker comes back in each storm of the soak.
	stormReturns = 5
	// stormsAlike is the number of storms between two changes of the settings.
	stormsAlike = 5
	// stormDir is the folder on the node in which each leaker notes that it has started.
	stormDir = "/run/storms"
)

// kindsOfStorms returns the kinds of storms. In a storm a pod meets the limit of the partition
// in bursts, faster than an eviction, and comes back, again and again.
func kindsOfStorms(returns int) []ramp {
	kind := func(name string, start func(*evictor, *testing.T, drawn, *v1.Pod) (stop func())) ramp {
		return ramp{kind: name, edge: true, run: func(e *evictor, t *testing.T, d drawn) { e.storm(t, d, returns, start) }}
	}
	return []ramp{
		kind("static pod", (*evictor).stormStatic),
		kind("DaemonSet", (*evictor).stormDaemonSet),
		kind("Job", (*evictor).stormJob),
	}
}

// TestStorms: a pod that meets the limit faster than an eviction, and comes back, is the only one
// that ends. There is one storm of each kind, with and without an API server.
func TestStorms(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		e := newStormEvictor(t, flavour)
		for i, r := range kindsOfStorms(2) {
			t.Run(r.kind, func(t *testing.T) {
				e.stormSettings(t, 1+i, r.kind != "static pod", "node-critical")
				e.ramp(t, drawn{ramp: r, name: one(r), api: r.kind != "static pod", pick: middle})
			})
		}
	})
}

// soakStorms draws storms, with and without API server.
func soakStorms(t *testing.T, flavour string, storms int, random *rand.Rand) {
	pick := func(low, high int) int { return low + random.IntN(high-low+1) }
	e := newStormEvictor(t, flavour)
	// A static pod is protected by default. Then the others are evicted for it, as by the kubelet.
	leakers, protections := kindsOfStorms(stormReturns), []string{"node-critical", "static,node-critical"}
	api, protected, met, begin := pick(0, 1) == 0, 0, 0, time.Now()
	for i := range storms {
		if i%stormsAlike == 0 {
			api, protected = !api, pick(0, 1)
			e.stormSettings(t, pick(1, 4), api, protections[protected])
		}
		d := drawn{ramp: leakers[pick(protected, 2)], name: fmt.Sprintf("leaker-%d", i), api: api, pick: pick}
		t.Logf("%d: %s, with API server: %t", i, d.kind, d.api)
		before, since := e.limitMet(t), time.Now()
		e.ramp(t, d)
		times := e.limitMet(t) - before
		met += times
		t.Logf("%d: the limit was met %d times, in %s", i, times, time.Since(since).Round(time.Second))
		if t.Failed() {
			t.Fatalf("after %d of %d", i, storms)
		}
	}
	if met == 0 {
		t.Error("the limit was never met: these are no storms")
	}
	t.Logf("%d storms met the limit %d times in %s", storms, met, time.Since(begin).Round(time.Second))
}

// newStormEvictor is newEvictor with more neighbours: static pods and a pod of a Deployment that
// use less than they request, and pods of a higher priority. Some of them allocate memory all the
// time. The kubelet restarts containers after a second, and not after minutes.
func newStormEvictor(t *testing.T, flavour string) *evictor {
	t.Helper()
	n, control := joined(t, flavour, stormSection(1))
	e := &evictor{Node: n, control: control, leakers: map[string]bool{}}
	run(t, n, "mkdir "+stormDir)
	if err := control.StartControllers(t.Context(), "daemonset-controller", "job-controller", "deployment-controller", "replicaset-controller"); err != nil {
		t.Fatal(err)
	}
	e.controllers = true
	for _, name := range []string{"static-1", "static-2", "static-3"} {
		s := modest(name)
		apply(t, n, s)
		e.placed(t, name+"-"+n.Hostname)
	}
	_, err := control.Client().SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "important"}, Value: 1000,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, n, "the API server admits pods of the priority class", func(ctx context.Context) (bool, string, error) {
		s := modest("probe")
		s.change = func(p *v1.Pod) { p.Spec.PriorityClassName = "important" }
		_, err := control.Client().CoreV1().Pods(s.namespace).Create(ctx, s.pod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, fmt.Sprint(err), nil
	})
	for name, class := range map[string]string{"important": "important", "critical": "system-cluster-critical"} {
		s := modest(name)
		s.requests = resources("10m", "4Mi")
		s.change = func(p *v1.Pod) { p.Spec.PriorityClassName = class }
		e.create(t, s)
	}
	e.deployment(t, modest("deployed"))
	e.neighbours(t)
	return e
}

// modest is a member that holds 8 of the 48 MiB that it requests. Its shell allocates some memory
// each second, and so meets a limit that another pod has used up.
func modest(name string) spec {
	return spec{
		namespace: members, name: name, requests: resources("10m", "48Mi"),
		command: []string{"sh", "-c", "trap 'exit 0' TERM; dd if=/dev/zero bs=8M count=1 | sleep 2147483647 & while :; do dd if=/dev/zero of=/dev/null bs=1M count=1 2>/dev/null; sleep 1; done"},
	}
}

// deployment creates a Deployment of one such pod, and waits until that is placed.
func (e *evictor) deployment(t *testing.T, s spec) {
	t.Helper()
	pod, one, labels := s.pod().Spec, int32(1), map[string]string{"app": s.name}
	pod.NodeName = e.Hostname
	if _, err := e.control.Client().AppsV1().Deployments(s.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var pods []v1.Pod
	eventually(t, e.Node, "a pod of "+s.name, func(context.Context) (bool, string, error) {
		pods = e.labelled(t, labels)
		return len(pods) == 1, fmt.Sprint(len(pods)), nil
	})
	if _, err := e.control.WaitPod(t.Context(), s.namespace, pods[0].Name); err != nil {
		t.Fatal(err)
	}
	e.placed(t, pods[0].Name)
}

// stormSection is the end of the kubelet's configuration in storms. The threshold is a number of
// MiB. The limit leaves room for one or two bursts: when all of a leak is in one process, the
// kernel looks for another as soon as that ends.
func stormSection(threshold int) string {
	return fmt.Sprintf(`crashLoopBackOff: {maxContainerRestartPeriod: 1s}
systemPartition:
  memoryLimit: 280Mi
  cpuset: "0-1"
  namespaces: [kube-system]
  evictionHard: {memory.available: %dMi}
`, threshold)
}

// stormSettings sets the threshold, the pods that are protected, and whether the monitor has an API
// server.
func (e *evictor) stormSettings(t *testing.T, threshold int, api bool, protected string) {
	t.Helper()
	t.Logf("from %d MiB on, protected: %s, with API server: %t", threshold, protected, api)
	configure(t, e.Node, stormSection(threshold))
	args := "--eviction-protect=" + protected
	if !api {
		args += " --kubeconfig=none"
	}
	e.restarted(t, args)
}

// limitMet returns how often the limit of the partition could not be kept.
func (e *evictor) limitMet(t *testing.T) int {
	t.Helper()
	times, err := strconv.Atoi(run(t, e.Node, "awk '$1 == \"oom\" { print $2 }' "+systemCgroup+"/memory.events.local"))
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// storm runs one storm: its pod starts, comes back so many times, and runs on.
func (e *evictor) storm(t *testing.T, d drawn, returns int, start func(*evictor, *testing.T, drawn, *v1.Pod) (stop func())) {
	t.Helper()
	before := e.bystanders(t)
	stop := start(e, t, d, d.bursts(returns))
	for i := range returns + 2 {
		eventually(t, e.Node, fmt.Sprintf("%s has come back %d times", d.name, i), func(ctx context.Context) (bool, string, error) {
			out, err := e.Run(ctx, "cat "+stormDir+"/"+d.name+" 2>/dev/null || true")
			for uid := range strings.Lines(out) {
				e.leakers[strings.TrimSpace(uid)] = true
			}
			came := strings.Count(out, "\n")
			return came > i, fmt.Sprint(came), err
		})
	}
	e.through(t)
	stop()
	after := e.inits(t)
	if !containsAll(after, before) {
		// Beside cgroups and processes that come and go, find and cat miss one that stays (Linux 6.12,
		// findutils 4.10, once in 45 storms). One that has ended does not come back with its PID and its
		// start time.
		after = append(after, e.inits(t)...)
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("%s no longer runs (cgroup, PID, start time); now: %v", line, after)
		}
	}
}

// bursts returns a pod of a storm. It starts, allocates from 64 to 200 MiB at once, in one process
// after another, until it ends, and comes back. When it has come back often enough it stays at
// rest. It has neither limits nor requests. At the limit one of its processes is larger than any
// other pod: the kernel selects by the size of processes.
func (d drawn) bursts(returns int) *v1.Pod {
	// dd writes after it has read everything, and holds it as long as sleep holds the pipe.
	s := d.pod("", "sh", "-c", fmt.Sprintf(`trap 'exit 0' TERM
echo $UID >>%[1]s
if test $(wc -l <%[1]s) -gt %[2]d; then sleep 2147483647 & wait; fi
mkfifo /done && exec 3<>/done
while sleep 0.%[3]d; do
  dd if=/dev/zero bs=%[4]dM count=1 2>/dev/null | { head -c 1 >/dev/null; echo >&3; exec sleep 2147483647; } &
  read -r _ <&3
done`, path.Join(stormDir, d.name), returns+1, d.pick(1, 9), d.pick(64, 200)))
	s.requests = nil
	s.change = func(p *v1.Pod) {
		folder := v1.HostPathDirectory
		p.Spec.Volumes = []v1.Volume{{Name: "notes", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: stormDir, Type: &folder}}}}
		c := &p.Spec.Containers[0]
		c.VolumeMounts = []v1.VolumeMount{{Name: "notes", MountPath: stormDir}}
		c.Env = []v1.EnvVar{{Name: "UID", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}}
	}
	return s.pod()
}

// bystanders returns the lines of inits without those of pods that have leaked before: the sandbox
// of a pod that was deleted with force may still be ending.
func (e *evictor) bystanders(t *testing.T) []string {
	t.Helper()
	lines := e.inits(t)
	for uid := range e.leakers {
		escaped := strings.ReplaceAll(uid, "-", "_")
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, escaped) })
	}
	return lines
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(line string) bool { return !slices.Contains(all, line) })
}

// inits returns a line for each container on the node: its cgroup, and the PID and start time of
// its first process.
func (e *evictor) inits(t *testing.T) []string {
	t.Helper()
	// Without a process for each process: an emulated node takes 10 ms for one.
	return strings.Split(run(t, e.Node, `for p in $(find `+cgroupRoot+`kubepods.slice -name cgroup.procs -exec cat {} +); do
  while read -r key a b c; do if test "$key" = NSpid:; then break; fi; done 2>/dev/null <"/proc/$p/status" || continue
  if test "$b" != 1 -a "$c" != 1; then continue; fi
  read -r cgroup <"/proc/$p/cgroup" && read -r stat <"/proc/$p/stat" || continue
  set -- ${stat##*) }
  echo "$cgroup $p ${20}"
done`), "\n")
}

// stormStatic is a storm of a static pod.
func (e *evictor) stormStatic(t *testing.T, _ drawn, pod *v1.Pod) (stop func()) {
	t.Helper()
	s := spec{namespace: pod.Namespace, name: pod.Name, change: func(p *v1.Pod) { *p = *pod }}
	if _, err := e.ApplyPod(t.Context(), s.manifest(t)); err != nil {
		t.Fatal(err)
	}
	return func() { remove(t, e.Node, s) }
}

// stormDaemonSet is a storm of a DaemonSet's pod.
func (e *evictor) stormDaemonSet(t *testing.T, d drawn, pod *v1.Pod) (stop func()) {
	t.Helper()
	_, stop = e.daemonSet(t, d, pod.Spec)
	return stop
}

// stormJob is a storm of a Job's pod. The kubelet restarts it after a kill.
func (e *evictor) stormJob(t *testing.T, d drawn, pod *v1.Pod) (stop func()) {
	t.Helper()
	limit, labels := int32(100), map[string]string{"app": d.name}
	pod.Spec.NodeName, pod.Spec.RestartPolicy = e.Hostname, v1.RestartPolicyOnFailure
	jobs := e.control.Client().BatchV1().Jobs(members)
	if _, err := jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: d.name},
		Spec: batchv1.JobSpec{
			BackoffLimit: &limit,
			Template:     v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := jobs.Delete(t.Context(), d.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.removeAll(t, labels)
	}
}
