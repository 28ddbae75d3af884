//go:build node

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// typesSection has a type with slices, and one whose members are in the system partition.
const typesSection = `systemPartition: {memoryLimit: 512Mi, namespaces: [kube-system]}
workloadPartitions:
  telemetry: {cpuset: "0", memoryLimit: 384Mi, allowedNamespaces: [operators], namespaceAnnotation: true}
  management: {partition: system, allowedNamespaces: [operators]}
`

// asking returns a pod that asks for types.
func asking(s spec, asked ...string) spec {
	s.change = func(p *v1.Pod) {
		p.Annotations = map[string]string{}
		for _, name := range asked {
			p.Annotations["target.workload.openshift.io/"+name] = `{"effect": "PreferredDuringScheduling"}`
		}
	}
	return s
}

// TestWorkloadTypes: a pod that asks for a type by annotation is placed at its creation if it has a
// right to, and not otherwise.
func TestWorkloadTypes(t *testing.T) {
	onEach(t, kinds(allFlavours(), "trixie", "crio"), func(t *testing.T, flavour string) {
		w := newWorkloads(t, flavour, typesSection)
		for _, name := range []string{"operators", "silent", "annotated"} {
			namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := w.control.Client().CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			name string
			run  func(*testing.T)
		}{
			{"at creation", w.typesAtCreation},
			{"CPU time", w.typesCPU},
			{"over a restart", w.typesRestarted},
			{"by the pre-launched plugin", w.typesPrelaunched},
		} {
			if !t.Run(step.name, step.run) {
				return
			}
		}
	})
}

// typed is a pod, and the place that it has.
type typed struct {
	spec
	partition partition.Name
	want      *report.Workload
}

// typesAtCreation: members are in their partition from the first container on.
func (w *workloads) typesAtCreation(t *testing.T) {
	small := resources("100m", "16Mi")
	all := []typed{
		{asking(spec{namespace: "operators", name: "asks", requests: small}, "telemetry"), telemetry,
			&report.Workload{Type: "telemetry", By: partition.ByAllowedNamespace}},
		{asking(spec{namespace: "operators", name: "asks-besteffort"}, "telemetry"), telemetry,
			&report.Workload{Type: "telemetry", By: partition.ByAllowedNamespace}},
		{asking(spec{namespace: "operators", name: "manages", requests: small}, "management"), partition.System,
			&report.Workload{Type: "management", By: partition.ByAllowedNamespace}},
		{asking(spec{namespace: "annotated", name: "new", requests: small}, "telemetry"), telemetry,
			&report.Workload{Type: "telemetry", By: partition.ByNamespaceAnnotation}},
		{asking(spec{namespace: "annotated", name: "manages-not", requests: small}, "management"), partition.Default,
			&report.Workload{Type: "management", Refused: partition.NotAllowed}},
		{asking(spec{namespace: members, name: "system-asks", requests: small}, "web"), partition.System,
			&report.Workload{By: partition.ByNamespace, Refused: partition.UnknownType}},
		{spec{namespace: "operators", name: "asks-for-nothing", requests: small}, partition.Default, nil},
		{asking(spec{namespace: "operators", name: "guaranteed", requests: small, limits: small}, "telemetry"), partition.Default,
			&report.Workload{Type: "telemetry", Refused: partition.IsGuaranteed}},
		{asking(spec{namespace: "operators", name: "two", requests: small}, "telemetry", "management"), partition.Default,
			&report.Workload{Refused: partition.TwoTypes}},
		{asking(spec{namespace: "operators", name: "unknown", requests: small}, "web"), partition.Default,
			&report.Workload{Type: "web", Refused: partition.UnknownType}},
	}
	for some := range slices.Chunk(all, atOnce) {
		for _, pod := range some {
			w.submit(t, pod.spec)
		}
		for _, pod := range some {
			w.isIn(t, pod)
		}
	}
	for _, pod := range all {
		w.neverRestarted(t, pod.namespace, pod.name)
	}
	static := asking(spec{namespace: "silent", name: "static", requests: small}, "telemetry")
	apply(t, w.Node, static)
	reported := func(kind string, p partition.Name) {
		t.Helper()
		inSlice(t, w.Node, "silent", "static", p, v1.PodQOSBurstable)
		w.isIn(t, typed{spec{namespace: "silent", name: "static-" + w.Hostname}, p, &report.Workload{Type: kind, By: partition.ByStatic}})
	}
	reported("telemetry", telemetry)
	// It moves directly: the pod by which the kubelet replaces it is never restarted. Its requests are
	// others: the UID is of the manifest, and the kubelet counts ended containers of the same UID.
	for _, next := range []struct {
		kind string
		p    partition.Name
	}{{"management", partition.System}, {"telemetry", telemetry}} {
		w.replace(t, asking(spec{namespace: "silent", name: "static", requests: resources("90m", "16Mi")}, next.kind))
		reported(next.kind, next.p)
		pod, err := w.Pod(t.Context(), "silent", "static")
		if err != nil || pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the static pod of type %s: %+v, %v; want no restart", next.kind, pod, err)
		}
	}
}

// replace changes the manifest of a static pod, and waits for the pod by which the kubelet replaces
// it. That has another UID.
func (w *workloads) replace(t *testing.T, s spec) {
	t.Helper()
	before := uidOf(t, w.Node, s.namespace, s.name)
	if _, err := w.ApplyPod(t.Context(), s.manifest(t)); err != nil {
		t.Fatal(err)
	}
	w.await(t, s.name+" is another pod", func(ctx context.Context) (bool, string, error) {
		now, err := w.Pod(ctx, s.namespace, s.name)
		return err == nil && string(now.UID) != before, fmt.Sprint(err), nil
	})
}

// isIn waits until a pod runs in its partition, and compares what status reports of it.
func (w *workloads) isIn(t *testing.T, pod typed) {
	t.Helper()
	w.await(t, fmt.Sprintf("%s/%s in %s", pod.namespace, pod.name, pod.partition), func(ctx context.Context) (bool, string, error) {
		found, err := reportOf(ctx, w.Node)
		if err != nil {
			return false, "", err
		}
		for _, p := range found.Pods {
			if p.Namespace != pod.namespace || p.Name != pod.name {
				continue
			}
			same := (p.Workload == nil) == (pod.want == nil) && (pod.want == nil || *p.Workload == *pod.want)
			return same && p.Partition() == pod.partition && p.Containers == 1 && p.Misplaced == 0, fmt.Sprintf("%+v %+v", p, p.Workload), nil
		}
		return false, "not there", nil
	})
}

// neverRestarted: the containers of a pod are its first.
func (w *workloads) neverRestarted(t *testing.T, namespace, name string) {
	t.Helper()
	pod, err := w.control.Client().CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range pod.Status.ContainerStatuses {
		// One that the runtime could not create in time, on a node under load, counts as a restart too,
		// without a state before it.
		if ended := c.LastTerminationState.Terminated; ended != nil {
			t.Errorf("%s/%s was restarted, after %+v; want it placed at its creation", namespace, name, ended)
		}
	}
}

// typesRestarted: a restart of the monitor moves no member, and no check finds fault with them.
func (w *workloads) typesRestarted(t *testing.T) {
	becomes(t, w.Node, checked("workload-resource"), "ok workload-resource")
	want(t, w.Node, checked("workload-rights"), "ok workload-rights")
	run(t, w.Node, "systemctl restart "+monitorUnit)
	w.isIn(t, typed{spec{namespace: "annotated", name: "new"}, telemetry, &report.Workload{Type: "telemetry", By: partition.ByNamespaceAnnotation}})
	w.neverRestarted(t, "annotated", "new")
}

// checked is a command that writes the grades of the findings of a check.
func checked(name string) string {
	return monitorPath + " check -v | grep -E '^[a-z]+ +" + name + ":' | tr -s ' ' | cut -d: -f1 | sort -u"
}

// typesPrelaunched: while the monitor does not run, the plugin that the runtime starts places pods
// that ask, by each of the rights. The monitor finds them in their place.
func (w *workloads) typesPrelaunched(t *testing.T) {
	if !placing(w.Flavour) {
		return
	}
	if err := w.CopyTo(t.Context(), prelaunched()); err != nil {
		t.Fatal(err)
	}
	runtimeWithoutMonitor(t, w.Node, w.Flavour)
	plugins(t, w.Node, "1")
	early := func(namespace, kind string) spec {
		return asking(spec{namespace: namespace, name: "early", requests: resources("10m", "16Mi")}, kind)
	}
	static := early("silent", "telemetry")
	static.name = "early-static"
	apply(t, w.Node, static)
	inside := []typed{
		{early("annotated", "telemetry"), telemetry, &report.Workload{Type: "telemetry", By: partition.ByNamespaceAnnotation}},
		{early("operators", "telemetry"), telemetry, &report.Workload{Type: "telemetry", By: partition.ByAllowedNamespace}},
		{spec{namespace: "silent", name: "early-static-" + w.Hostname}, telemetry, &report.Workload{Type: "telemetry", By: partition.ByStatic}},
	}
	refused := typed{early("silent", "management"), partition.Default, &report.Workload{Type: "management", Refused: partition.NotAllowed}}
	for _, pod := range []typed{inside[0], inside[1], refused} {
		w.create(t, pod.spec)
	}
	uids := w.uidsByName(t)
	for _, pod := range inside {
		w.onTelemetry(t, pod.name, uids[pod.namespace+"/"+pod.name])
	}
	w.runsIn(t, "silent", "early", partition.Default, v1.PodQOSBurstable)
	want(t, w.Node, "systemctl is-active "+monitorUnit+" || true", "inactive")
	run(t, w.Node, "systemctl start "+monitorUnit)
	if got := placedByPlugin(t, w.Node); got != len(inside) {
		t.Errorf("the plugin has placed %d containers; want %d", got, len(inside))
	}
	for _, pod := range append(inside, refused) {
		w.isIn(t, pod)
		w.neverRestarted(t, pod.namespace, pod.name)
	}
	plugins(t, w.Node, "0")
	run(t, w.Node, "rm "+prelaunchedPath)
	remove(t, w.Node, static)
	for _, namespace := range []string{"annotated", "operators", "silent"} {
		w.delete(t, namespace, "early")
	}
	w.gone(t, "early")
}

// uidsByName returns the UIDs of the pods that the kubelet has, by namespace and name.
func (w *workloads) uidsByName(t *testing.T) map[string]string {
	t.Helper()
	pods, err := w.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	uids := map[string]string{}
	for i := range pods {
		uids[pods[i].Namespace+"/"+pods[i].Name] = string(pods[i].UID)
	}
	return uids
}

// newSandbox ends the sandbox of a Burstable member of telemetry, and waits until the kubelet has
// made another one. The slice of the pod ends, too.
func (w *workloads) newSandbox(t *testing.T, name, uid string) {
	t.Helper()
	before, err := w.Sandbox(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.StopSandbox(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	// It may be gone already.
	run(t, w.Node, "systemctl stop "+partition.PodSlice(telemetry, v1.PodQOSBurstable, uid)+" 2>/dev/null || true")
	w.await(t, "another sandbox of "+name, func(ctx context.Context) (bool, string, error) {
		now, err := w.Sandbox(ctx, uid)
		return now != before, now, err
	})
}

// onTelemetry waits until a pod runs, with each process in the partition telemetry, on its CPU 0.
func (w *workloads) onTelemetry(t *testing.T, name, uid string) {
	t.Helper()
	w.await(t, "all processes of "+name+" in their partition", func(ctx context.Context) (bool, string, error) {
		all, err := processesOf(ctx, w.Node, uid)
		outside := slices.ContainsFunc(all, func(p podProcess) bool { return p.partition != telemetry || p.cpus != "0" })
		return len(all) > 0 && !outside, fmt.Sprint(all), err
	})
}
