//go:build node

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
)

// resourceSection has a type whose members are in the system partition on CPU 1, and another one,
// or none.
func resourceSection(telemetry string) string {
	return "systemPartition: {memoryLimit: 512Mi, cpuset: \"1\", namespaces: [kube-system]}\n" +
		"workloadPartitions:\n  management: {partition: system, allowedNamespaces: [operators]}\n" + telemetry
}

// telemetryOn is the other type, on CPU 0.
func telemetryOn(advertise bool) string {
	return fmt.Sprintf("  telemetry: {cpuset: \"0\", namespaces: [telemetry], allowedNamespaces: [operators], advertise: %t}\n", advertise)
}

// kubeletRestarts is the number of restarts that members have to survive.
const kubeletRestarts = 20

// TestResource: pods that ask for a type request its resource, by the policies of render admission
// and by render pod, and run on the CPUs of its partition, whatever becomes of the resource on the
// Node meanwhile.
func TestResource(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		r := newTypedNode(t, flavour, resourceSection(telemetryOn(true)))
		r.applied(t)
		r.created(t, resourceGroups()...)
		r.convertedAll(t)
		r.weigh(t)
		for _, step := range []struct {
			name string
			run  func(*testing.T)
		}{
			{"overwritten", r.overwritten},
			{"more than the node", r.moreThanTheNode},
			{"more than the pool", r.moreThanThePool},
			{"not advertised", r.notAdvertised},
			{"Node deleted", r.nodeDeleted},
			{"type removed", r.typeRemoved},
			{"kubelet restarted", r.kubeletRestarted},
			{"rebooted", r.rebooted},
			{"booted without the API server", r.bootedAlone},
		} {
			if !t.Run(step.name, step.run) {
				return
			}
		}
	})
}

// resourceGroups are pods of each QoS class and of each origin.
func resourceGroups() []group {
	small, steady := resources("50m", "24Mi"), resources("100m", "24Mi")
	return []group{
		{asking(spec{namespace: operators, name: "deployed", requests: resources("400m", "24Mi"), limits: v1.ResourceList{v1.ResourceCPU: resources("1", "1")[v1.ResourceCPU]}}, "telemetry"),
			(*typedNode).byDeployment, telemetry, v1.PodQOSBurstable, "0"},
		{asking(spec{namespace: operators, name: "besteffort"}, "telemetry"), (*typedNode).byDeployment, telemetry, v1.PodQOSBestEffort, "0"},
		{asking(spec{namespace: operators, name: "daemon", requests: resources("1", "24Mi")}, "management"), (*typedNode).byDaemonSet, partition.System, v1.PodQOSBurstable, "1"},
		{asking(spec{namespace: operators, name: "everywhere"}, "telemetry"), (*typedNode).byDaemonSet, telemetry, v1.PodQOSBestEffort, "0"},
		{asking(spec{namespace: operators, name: "static", requests: small}), (*typedNode).byManifest, telemetry, v1.PodQOSBurstable, "0"},
		{asking(spec{namespace: operators, name: "manifest"}), (*typedNode).byManifest, telemetry, v1.PodQOSBestEffort, "0"},
		// A Guaranteed pod is a member by its namespace, and not by annotation.
		{asking(spec{namespace: operators, name: "guaranteed", requests: steady, limits: steady}, "telemetry"), (*typedNode).byDeployment, partition.Default, v1.PodQOSGuaranteed, "0-1"},
		{asking(spec{namespace: operators, name: "steady", requests: steady, limits: steady}, "telemetry"), (*typedNode).byDaemonSet, partition.Default, v1.PodQOSGuaranteed, "0-1"},
		{asking(spec{namespace: operators, name: "kept", requests: steady, limits: steady}), (*typedNode).byManifest, partition.Default, v1.PodQOSGuaranteed, "0-1"},
		{spec{namespace: string(telemetry), name: "guaranteed", requests: steady, limits: steady}, (*typedNode).byDeployment, telemetry, v1.PodQOSGuaranteed, "0"},
		{spec{namespace: v1.NamespaceDefault, name: "ordinary", requests: small}, (*typedNode).byDeployment, partition.Default, v1.PodQOSBurstable, "0-1"},
	}
}

// convertedAll: the members request the resource and no CPU, and the Guaranteed pod has a warning.
func (r *typedNode) convertedAll(t *testing.T) {
	t.Helper()
	for _, g := range r.groups {
		pods, err := r.of(t.Context(), g)
		if err != nil || len(pods) != 1 {
			t.Fatalf("%s: %d pods, %v", g.name, len(pods), err)
		}
		has := pods[0].Spec.Containers[0].Resources.Requests
		asks, kind := "", ""
		for key := range g.pod().Annotations {
			asks = strings.TrimPrefix(key, "target.workload.openshift.io/")
		}
		if slices.Contains([]string{"static", "manifest", "kept"}, g.name) {
			asks = "telemetry"
		}
		if asks != "" && g.class == v1.PodQOSBurstable {
			kind = asks
		}
		wanted := g.requests[v1.ResourceCPU]
		got := has[v1.ResourceCPU]
		if kind != "" {
			got = has[v1.ResourceName(partition.WorkloadResource(kind))]
			wanted.SetScaled(wanted.MilliValue(), 0)
			if _, is := has[v1.ResourceCPU]; is {
				t.Errorf("%s/%s requests CPU: %v", g.namespace, g.name, has)
			}
		}
		if got.Cmp(wanted) != 0 {
			t.Errorf("%s/%s requests %v; want %v", g.namespace, g.name, has, &wanted)
		}
		warned := pods[0].Annotations["workload.openshift.io/warning"] != ""
		if warned != (asks != "" && g.class == v1.PodQOSGuaranteed) {
			t.Errorf("%s/%s has the annotations %v", g.namespace, g.name, pods[0].Annotations)
		}
	}
}

// weigh waits until the slices of pods have the weights of what their pods request of the resource,
// as the kubelet would have given them for CPU.
func (r *typedNode) weigh(t *testing.T) {
	t.Helper()
	wanted := map[string]string{"deployed": "16", "besteffort": "1", "daemon": "39", "everywhere": "1", "static": "2", "manifest": "1"}
	eventually(t, r.Node, "the weights of the resource", func(ctx context.Context) (bool, string, error) {
		all, err := standings(ctx, r.Node)
		if err != nil {
			return false, "", err
		}
		found := map[string]string{}
		for _, g := range r.groups {
			pods, err := r.of(ctx, g)
			if err != nil || wanted[g.name] == "" || len(pods) != 1 {
				continue
			}
			if s, err := standingOf(all, &pods[0]); err == nil {
				found[g.name] = s.podWeight
			}
		}
		return maps.Equal(found, wanted), fmt.Sprint(found), nil
	})
}

// overwritten: what another program writes is written over, and it is said.
func (r *typedNode) overwritten(t *testing.T) {
	before := r.known(t)
	r.setCores(t, `"7"`)
	r.hasCores(t, "telemetry", allCores)
	r.setCores(t, "null")
	r.keepsCores(t, "management")
	r.restartKubelet(t)
	r.hasCores(t, "telemetry", allCores)
	r.become(t, before)
	if got := overwritten(t, r.Node); got == "0" {
		t.Error("the monitor does not say that the value was overwritten")
	}
}

// waits waits until the scheduler has found no node for a pod, for lack of a type.
func (r *typedNode) waits(t *testing.T, s spec, kind string) {
	t.Helper()
	eventually(t, r.Node, s.name+" waits", func(ctx context.Context) (bool, string, error) {
		pod, err := r.control.Client().CoreV1().Pods(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Reason == v1.PodReasonUnschedulable && pod.Spec.NodeName == "" {
				return strings.Contains(c.Message, "Insufficient "+partition.WorkloadResource(kind)), c.Message, nil
			}
		}
		return false, fmt.Sprintf("%+v", pod.Status), nil
	})
}

// moreThanTheNode: a pod that requests more than all CPUs of the node is not scheduled.
func (r *typedNode) moreThanTheNode(t *testing.T) {
	large := asking(spec{namespace: operators, name: "large", requests: resources("2001m", "24Mi")}, "telemetry")
	r.scheduled(t, large)
	r.waits(t, large, "telemetry")
	r.delete(t, operators, "large")
}

// moreThanThePool: pods that together request more than the CPUs of their partition are scheduled,
// and share these by the weights of their slices.
func (r *typedNode) moreThanThePool(t *testing.T) {
	busy := func(name, cpu string) spec {
		return asking(spec{namespace: operators, name: name, requests: resources(cpu, "24Mi"), command: []string{"sh", "-c", "while :; do :; done"}}, "telemetry")
	}
	all := []spec{busy("busy-more", "900m"), busy("busy-less", "300m")}
	stats, weights := make([]string, 0, len(all)), make([]string, 0, len(all))
	for _, s := range all {
		r.scheduled(t, s)
		pod, err := r.control.WaitPod(t.Context(), s.namespace, s.name)
		if err != nil {
			t.Fatal(err)
		}
		dir := cgroupRoot + partition.CgroupPath(partition.PodSlice(telemetry, v1.PodQOSBurstable, string(pod.UID)))
		stats, weights = append(stats, dir+"/cpu.stat"), append(weights, dir+"/cpu.weight")
	}
	read := func(ctx context.Context, command string) (a, b float64, err error) {
		out, err := r.Run(ctx, command)
		if err == nil {
			_, err = fmt.Sscan(out, &a, &b)
		}
		return a, b, err
	}
	usage := "sed -n 's/^usage_usec //p' " + strings.Join(stats, " ")
	began := [2]float64{}
	var err error
	if began[0], began[1], err = read(t.Context(), usage); err != nil {
		t.Fatal(err)
	}
	more, less, err := read(t.Context(), "cat "+strings.Join(weights, " "))
	if err != nil {
		t.Fatal(err)
	}
	if more != 36 || less != 12 {
		t.Errorf("the weights %v and %v; want 36 for 900m and 12 for 300m, by the kubelet's formula", more, less)
	}
	var got float64
	const enough = 5e6 // µs
	eventually(t, r.Node, "CPU time of the two pods", func(ctx context.Context) (bool, string, error) {
		a, b, err := read(ctx, usage)
		a, b = a-began[0], b-began[1]
		got = a / (a + b)
		return a+b >= enough, fmt.Sprint(a, b), err
	})
	t.Logf("weights %v and %v: the first has %.2f of the CPU time of both", more, less, got)
	if wanted := more / (more + less); math.Abs(got-wanted) > 0.1 {
		t.Errorf("the first pod has %.2f of the CPU time; want %.2f by the weights %v and %v", got, wanted, more, less)
	}
	r.stand(t)
	for _, s := range all {
		r.delete(t, s.namespace, s.name)
		r.gone(t, s.name)
	}
}

// notAdvertised: without the resource members go on, also over a restart of the kubelet, and pods
// that request it wait until the Node has it again.
func (r *typedNode) notAdvertised(t *testing.T) {
	before := r.known(t)
	configure(t, r.Node, resourceSection(telemetryOn(false)))
	r.hasCores(t, "telemetry", "")
	r.keepsCores(t, "management")
	r.restartKubelet(t)
	r.admitted(t)
	r.become(t, before)
	r.stand(t)
	late := asking(spec{namespace: operators, name: "late", requests: resources("100m", "24Mi")}, "telemetry")
	r.scheduled(t, late)
	r.waits(t, late, "telemetry")
	configure(t, r.Node, resourceSection(telemetryOn(true)))
	r.hasCores(t, "telemetry", allCores)
	if _, err := r.control.WaitPod(t.Context(), operators, "late"); err != nil {
		t.Error(err)
	}
	r.delete(t, operators, "late")
	r.gone(t, "late")
	r.become(t, before)
}

// nodeDeleted: a Node that is made again gets the resource, and its pods go on.
func (r *typedNode) nodeDeleted(t *testing.T) {
	before := r.known(t)
	nodes := r.control.Client().CoreV1().Nodes()
	old, err := nodes.Get(t.Context(), r.Hostname, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes.Delete(t.Context(), r.Hostname, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.restartKubelet(t) // it registers at its start alone (1.37)
	now, err := nodes.Get(t.Context(), r.Hostname, metav1.GetOptions{})
	if err != nil || now.UID == old.UID {
		t.Fatalf("the Node %v, error %v; want another than %s", now.UID, err, old.UID)
	}
	for _, kind := range []string{"telemetry", "management"} {
		r.hasCores(t, kind, allCores)
	}
	r.admitted(t)
	r.become(t, before)
}

// typeRemoved: the resource goes with its type, and the pods go on outside.
func (r *typedNode) typeRemoved(t *testing.T) {
	before := r.known(t)
	configure(t, r.Node, resourceSection(""))
	r.hasCores(t, "telemetry", "")
	r.keepsCores(t, "management")
	wanted := r.groups
	outside := make([]group, 0, len(wanted))
	for _, g := range wanted {
		if g.partition == telemetry {
			g.partition, g.cpus = partition.Default, "0-1"
		}
		outside = append(outside, g)
	}
	r.groups = outside
	r.stand(t)
	r.groups = wanted
	configure(t, r.Node, resourceSection(telemetryOn(true)))
	r.hasCores(t, "telemetry", allCores)
	r.stand(t)
	for name, id := range r.known(t) {
		if id.uid != before[name].uid {
			t.Errorf("%s has another UID", name)
		}
	}
}

// kubeletRestarted: this kubelet keeps the resource when it starts, and admits the members again.
func (r *typedNode) kubeletRestarted(t *testing.T) {
	before, said := r.known(t), overwritten(t, r.Node)
	for range kubeletRestarts {
		r.restartKubelet(t)
		r.become(t, before)
		r.keepsCores(t, "telemetry")
		r.keepsCores(t, "management")
		if t.Failed() {
			return
		}
	}
	r.admitted(t)
	r.become(t, before)
	r.stand(t)
	r.weigh(t)
	if now := overwritten(t, r.Node); now != said {
		t.Errorf("the kubelet has overwritten the resource: %s messages before and %s after", said, now)
	}
}

// rebooted: the members come back in their partition, in the same pods.
func (r *typedNode) rebooted(t *testing.T) {
	wanted := r.afterBoot(t)
	if err := r.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.ready(t)
	r.stand(t)
	r.booted(t, wanted)
	r.keepsCores(t, "telemetry")
	r.keepsCores(t, "management")
	if got := overwritten(t, r.Node); got != "0" {
		t.Errorf("%s messages of an overwritten value", got)
	}
}

// ready waits until the node is ready after a boot. All pods start at once, which takes an emulated
// node minutes.
func (r *typedNode) ready(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

// afterBoot returns the identities that pods have after a boot: each container was restarted once.
func (r *typedNode) afterBoot(t *testing.T) map[string]identity {
	t.Helper()
	all := r.known(t)
	for name, id := range all {
		id.container, id.restarts = "", id.restarts+1
		all[name] = id
	}
	return all
}

// booted waits until the pods have these identities, whatever the IDs of their containers. On a
// node under load the runtime may end the connection of NRI during the boot. A container that
// starts then is restarted into its place, once.
func (r *typedNode) booted(t *testing.T, wanted map[string]identity) {
	t.Helper()
	moved := 0
	r.await(t, "the same pods", func(ctx context.Context) (bool, string, error) {
		now, err := r.identities(ctx)
		moved = 0
		for name, id := range now {
			id.container = ""
			if more := id.restarts - wanted[name].restarts; more > 0 {
				id.restarts -= more
				moved += int(more)
			}
			now[name] = id
		}
		return err == nil && maps.Equal(now, wanted), differences(now, wanted), err
	})
	want(t, r.Node, "journalctl -b -o cat --no-pager -u "+monitorUnit+" | grep -c '^stopping a container, ' || true", strconv.Itoa(moved))
}

// bootedAlone: static members come up in their partition on a node whose API server is away. The
// resource, which has gone meanwhile, and the other pods come back with it.
func (r *typedNode) bootedAlone(t *testing.T) {
	wanted := r.afterBoot(t)
	run(t, r.Node, "systemctl stop "+monitorUnit)
	r.setCores(t, "null")
	if err := r.control.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if err := r.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WaitPod(t.Context(), operators, "static"); err != nil {
		t.Fatal(err)
	}
	inSlice(t, r.Node, operators, "static", telemetry, v1.PodQOSBurstable)
	inSlice(t, r.Node, members, "system-agent", partition.System, v1.PodQOSBurstable)
	if err := r.control.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.hasCores(t, "telemetry", allCores)
	r.ready(t)
	r.stand(t)
	r.booted(t, wanted)
}
