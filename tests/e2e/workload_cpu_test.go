//go:build node

package e2e

import (
	"fmt"
	"path"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// converted returns a pod as admission leaves it: it requests an amount of the resource of
// telemetry, an annotation keeps the shares and the limit of its container, and another one the
// request. Without an amount it is a BestEffort pod.
func converted(name, amount, annotation string) spec {
	s := asking(spec{namespace: "operators", name: name}, "telemetry")
	asks := s.change
	s.change = func(p *v1.Pod) {
		asks(p)
		const request = "io.openshift.workload.telemetry.cpushares/main"
		p.Annotations["resources.workload.openshift.io/main"], p.Annotations[request] = annotation, "0"
		if amount == "" {
			return
		}
		quantity := resource.MustParse(amount)
		p.Annotations[request] = fmt.Sprint(quantity.Value())
		cores := v1.ResourceList{"telemetry.workload.openshift.io/cores": quantity}
		requests := cores.DeepCopy()
		requests[v1.ResourceMemory], cores[v1.ResourceMemory] = resource.MustParse("16Mi"), resource.MustParse("64Mi")
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: requests, Limits: cores}
	}
	return s
}

// timed is a pod, and the CPU time that it has.
type timed struct {
	spec
	milli int64
	limit string // cpu.max
}

// cpuOf returns the commands that print weight and quota of the pod's slices and of its container:
// of the kubelet's slice, of ours, and of the scope, which comes last.
func (e *evictor) cpuOf(t *testing.T, namespace, pod string) (kubelets, ours, container, scope string) {
	t.Helper()
	p, err := e.control.WaitPod(t.Context(), namespace, pod)
	if err != nil {
		t.Fatal(err)
	}
	command := func(cgroup string) string {
		return fmt.Sprintf("cat %s/cpu.weight %s/cpu.max | xargs", cgroupRoot+cgroup, cgroupRoot+cgroup)
	}
	slice := func(in partition.Name) string {
		return partition.CgroupPath(partition.PodSlice(in, p.Status.QOSClass, string(p.UID)))
	}
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	find := "cd " + cgroupRoot + " && ls -d " + slice(telemetry) + "/*-" + id + ".scope"
	becomes(t, e.Node, find+" | wc -l", "1") // where the runtime has no NRI it is moved there
	scope = run(t, e.Node, find)
	return command(slice(partition.Default)), command(slice(telemetry)), command(scope), scope
}

// typesCPU: the slice of a pod and its container have the CPU time of the resource. They keep it
// over a resize, and without the kubelet, and lose it with the resource.
func (w *workloads) typesCPU(t *testing.T) {
	const noLimit = "max 100000"
	pods := []timed{
		{converted("limited", "400", `{"cpushares":409,"cpulimit":500}`), 400, "50000 100000"},
		{converted("one-cpu", "1k", `{"cpushares":1024}`), 1000, noLimit},
		{converted("besteffort", "", `{"cpushares":2}`), 0, noLimit},
		{converted("greedy", "100", `{"cpushares":262144,"cpulimit":1}`), 100, noLimit}, // not followed
	}
	runtime := admission.LinearWeight
	if strings.HasPrefix(w.Flavour, "forky") {
		runtime = admission.QuadraticWeight
	}
	for _, pod := range pods {
		w.submit(t, pod.spec)
	}
	type commands struct{ slice, container, scope, sliceSays, containerSays string }
	all := map[string]commands{}
	for _, pod := range pods {
		kubelets, slice, container, scope := w.cpuOf(t, pod.namespace, pod.name)
		shares := admission.SharesOfMilliCPU(pod.milli)
		c := commands{
			slice, container, scope,
			fmt.Sprint(admission.LinearWeight.Weight(shares), " ", pod.limit), fmt.Sprint(runtime.Weight(shares), " ", pod.limit),
		}
		all[pod.name] = c
		becomes(t, w.Node, c.slice, c.sliceSays)
		becomes(t, w.Node, c.container, c.containerSays)
		want(t, w.Node, kubelets, "1 "+noLimit)
		w.neverRestarted(t, pod.namespace, pod.name)
	}
	if all["limited"].sliceSays != "16 50000 100000" || all["one-cpu"].sliceSays != "39 "+noLimit {
		t.Errorf("the slices have %+v; want the weights 16 and 39", all)
	}
	w.isIn(t, typed{spec{namespace: "operators", name: "limited"}, telemetry,
		&report.Workload{Type: "telemetry", By: partition.ByAllowedNamespace, MilliCPU: 400}})
	becomes(t, w.Node, "journalctl -b -o cat -u "+monitorUnit+" | grep 'is not followed' | grep -c greedy", "1")

	// The pods of the first step request 300m of CPU: two over the API, and a static one. The others
	// request 1500 of the resource, and the partition has one CPU.
	total := fmt.Sprint(admission.LinearWeight.Weight(admission.SharesOfMilliCPU(300 + 1000)))
	becomes(t, w.Node, "cat "+telemetry.Cgroup()+"/cpu.weight", total)
	becomes(t, w.Node, "cat "+cgroupRoot+partition.CgroupPath(partition.QoSSlice(telemetry, v1.PodQOSBurstable))+"/cpu.weight", total)
	for _, f := range audited(t, w.Node) {
		if strings.Contains(f.Found, "telemetry") {
			t.Errorf("a finding of check: %+v", f)
		}
	}
	stay := func() {
		t.Helper()
		for _, c := range all {
			becomes(t, w.Node, c.slice, c.sliceSays)
			becomes(t, w.Node, c.container, c.containerSays)
		}
		becomes(t, w.Node, "cat "+telemetry.Cgroup()+"/cpu.weight", total)
	}
	// For another limit of memory the kubelet writes all resources of the container again.
	patch := []byte(`{"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":"96Mi"}}}]}}`)
	api := w.control.Client().CoreV1().Pods("operators")
	if _, err := api.Patch(t.Context(), "limited", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	limited := cgroupRoot + all["limited"].scope
	if !placing(w.Flavour) {
		limited = path.Dir(limited) // it reaches no container that was moved live: see resized
	}
	becomes(t, w.Node, "cat "+limited+"/memory.max", fmt.Sprint(96<<20))
	stay()
	// A monitor that starts without a kubelet looks for containerd: the kubelet's command line has the
	// socket of CRI-O. The rest has nothing to do with the runtime.
	if strings.HasPrefix(w.Flavour, "crio") {
		return
	}
	run(t, w.Node, "systemctl stop kubelet.service && systemctl restart "+monitorUnit)
	becomes(t, w.Node, "busybox wget -q -O - "+monitorURL+"/readyz || true", "ok")
	stay()
	run(t, w.Node, "systemctl start kubelet.service && systemctl daemon-reload")
	if err := w.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	stay()

	// Nothing is left of a container that has ended.
	settings := "ls /run/systemd/transient | grep -c " + path.Base(all["one-cpu"].scope) + " || true"
	want(t, w.Node, settings, "2") // the unit, and the folder of its properties
	grace := int64(0)
	if err := api.Delete(t.Context(), "one-cpu", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	becomes(t, w.Node, settings, "0")

	delete(all, "one-cpu")
	configure(t, w.Node, strings.Replace(typesSection, "telemetry: {", "telemetry: {advertise: false, ", 1))
	for name, c := range all {
		becomes(t, w.Node, c.slice, "1 "+noLimit)
		becomes(t, w.Node, c.container, "1 "+noLimit)
		w.neverRestarted(t, "operators", name)
	}
	configure(t, w.Node, typesSection)
	for _, c := range all {
		becomes(t, w.Node, c.slice, c.sliceSays)
		becomes(t, w.Node, c.container, c.containerSays)
	}
}
