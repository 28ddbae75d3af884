//go:build node

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/partition"
)

// attackedSection has a type with a CPU that no other pod may use: whoever runs there has gained
// it.
const attackedSection = `systemPartition: {memoryLimit: 512Mi, cpuset: "1", namespaces: [kube-system]}
workloadPartitions:
  telemetry: {cpuset: "0", exclusive: true, allowedNamespaces: [operators]}
  management: {partition: system, allowedNamespaces: [operators]}
`

// The namespaces of attacks: unallowed allows no type, and confined allows another one.
const (
	unallowed = "unallowed"
	confined  = "confined"
)

// attack is a pod that wants what it may not have.
type attack struct {
	spec
	// like is an honest pod: the attacker is to have what that has of the CPUs, and nothing else.
	like string
	// refused is the reason in the status of the monitor.
	refused partition.Refusal
}

// The annotations of a container, as OpenShift ships them and as the enhancement has them.
const (
	shipped  = "resources.workload.openshift.io/main"
	document = "io.openshift.workload.telemetry.cpushares/main"
)

// annotated returns the pod with an annotation more.
func annotated(s spec, key, value string) spec {
	change := s.change
	s.change = func(p *v1.Pod) {
		if change != nil {
			change(p)
		}
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
	return s
}

// taking returns the pod with a request of a type's resource beside its others.
func taking(s spec, amount string) spec {
	name := v1.ResourceName(partition.WorkloadResource("telemetry"))
	s.requests, s.limits = maps.Clone(s.requests), v1.ResourceList{name: resource.MustParse(amount)}
	s.requests[name] = resource.MustParse(amount)
	return s
}

// few is the request of each pod: all of them run at once on a node with two CPUs. It makes another
// weight than no request.
func few() v1.ResourceList { return resources("60m", "16Mi") }

// honest are pods that ask for what they may have. An attacker is compared with one of them.
func honest() []spec {
	small := few()
	return []spec{
		{namespace: unallowed, name: "ordinary", requests: small},
		{namespace: unallowed, name: "without-cpu", requests: v1.ResourceList{v1.ResourceMemory: small[v1.ResourceMemory]}},
		asking(spec{namespace: operators, name: "member", requests: small}, "telemetry"),
		asking(spec{namespace: operators, name: larger, requests: resources("180m", "16Mi")}, "telemetry"),
	}
}

// larger is the honest pod that requests more CPU than the others: three times as much.
const larger = "larger"

func attacks() []attack {
	small := few()
	in := func(namespace, name string) spec { return spec{namespace: namespace, name: name, requests: small} }
	asks := func(namespace, name string) spec { return asking(in(namespace, name), "telemetry") }
	without := in(unallowed, "resource-alone")
	without.requests = v1.ResourceList{v1.ResourceMemory: small[v1.ResourceMemory]}
	both := asking(without, "telemetry")
	both.name = "resource-and-type"
	allowed := both
	allowed.namespace, allowed.name = operators, "allowed-resource"
	claims := allowed
	claims.name = "allowed-resource-and-shares"
	return slices.Concat([]attack{
		{asks(unallowed, "no-right"), "ordinary", partition.NotAllowed},
		{asks(confined, "other-right"), "ordinary", partition.NotAllowed},
		{asking(in(operators, "two-types"), "telemetry", "management"), "ordinary", partition.TwoTypes},
		{annotated(in(operators, "hard-effect"), "target.workload.openshift.io/telemetry", `{"effect":"RequiredDuringScheduling"}`),
			"ordinary", partition.BadAnnotation},
		{annotated(asks(unallowed, "claims-to-be-static"), "kubernetes.io/config.source", "file"), "ordinary", partition.NotAllowed},
		{annotated(asks(unallowed, "cpuset-without-right"), shipped, `{"cpushares":61,"cpuset":"0"}`), "ordinary", partition.NotAllowed},
		{annotated(in(unallowed, "cpuset-alone"), shipped, `{"cpuset":"0"}`), "ordinary", ""},
		{annotated(asks(operators, "cpuset"), shipped, `{"cpushares":61,"cpuset":"0-1"}`), "member", ""},
		{taking(without, "400"), "without-cpu", ""},
		{taking(both, "400"), "without-cpu", partition.NotAllowed},
		// An amount that its namespace may request counts as what it is, and nothing else does.
		{taking(asks(operators, "larger-resource"), "120"), larger, ""},
		{taking(allowed, "180"), larger, ""},
		{annotated(taking(claims, "180"), shipped, `{"cpushares":262144}`), larger, ""},
		{annotated(annotated(asks(operators, "large-shares"), shipped, `{"cpushares":262144,"cpulimit":100000}`), document, "100000"), "member", ""},
	}, outOfRange(asks))
}

// outOfRange returns pods with numbers that are none, or too large, in the annotations of a
// container.
func outOfRange(asks func(namespace, name string) spec) (all []attack) {
	for key, values := range map[string][]string{
		shipped: {
			`{"cpushares":-5}`, `{"cpushares":1e99}`, `{"cpushares":99999999999999999999999}`, `{"cpushares":61,"cpulimit":-1}`, "[",
		},
		document: {"-5", "99999999999999999999999"},
	} {
		for i, value := range values {
			name := fmt.Sprintf("out-of-range-%d-%d", len(values), i)
			all = append(all, attack{annotated(asks(operators, name), key, value), "member", ""})
		}
	}
	return all
}

// TestAttacks: no pod gains a CPU, a slice or a weight by what its author writes, on a cluster
// without the policies of render admission. TestAdmission has those.
func TestAttacks(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		a := &attacked{newWorkloads(t, flavour, attackedSection)}
		for name, allowed := range map[string]string{operators: "", unallowed: "", confined: "management"} {
			namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if allowed != "" {
				namespace.Annotations = map[string]string{"workload.openshift.io/allowed": allowed}
			}
			if _, err := a.control.Client().CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		a.hasCores(t, "telemetry", allCores)
		a.all(t)
	})
}

// attacked is a node whose pods attack it.
type attacked struct{ *workloads }

// all makes all attacks and compares the outcomes with honest pods.
func (a *attacked) all(t *testing.T) {
	later := []spec{
		{namespace: unallowed, name: "asks-later", requests: few()},
		{namespace: operators, name: "asks-later", requests: few()},
	}
	for _, s := range later {
		a.create(t, s)
		a.asksLater(t, s)
	}
	for _, s := range honest() {
		a.create(t, s)
	}
	in := map[string]attack{}
	for _, one := range attacks() {
		if err := a.begin(t.Context(), one.spec); err != nil {
			t.Errorf("%s: %v", one.name, err)
			continue
		}
		in[one.namespace+"/"+one.name] = one
		if len(in)%atOnce == 0 {
			a.start(t, in)
		}
	}
	a.mirror(t)
	for _, s := range later {
		in[s.namespace+"/"+s.name] = attack{spec: s, like: "ordinary"}
	}
	a.gainNothing(t, in)
	a.saysWhy(t, in)
	// A reconcile of the monitor, which reads all pods again, changes nothing.
	run(t, a.Node, "systemctl restart "+monitorUnit)
	becomes(t, a.Node, "systemctl is-active "+monitorUnit, "active")
	a.saysWhy(t, in)
	a.gainNothing(t, in)
	for _, one := range in {
		if one.like != "member" && one.like != larger { // nothing has been moved, not even back
			a.neverRestarted(t, one.namespace, one.name)
		}
	}
}

// start waits until the container of each attacker runs.
func (a *attacked) start(t *testing.T, in map[string]attack) {
	t.Helper()
	a.await(t, "running attackers", func(ctx context.Context) (bool, string, error) {
		for _, one := range in {
			pod, err := a.control.Client().CoreV1().Pods(one.namespace).Get(ctx, one.name, metav1.GetOptions{})
			if err != nil || pod.Status.Phase != v1.PodRunning {
				return false, one.namespace + "/" + one.name + " does not run", err
			}
		}
		return true, "", nil
	})
}

// gainNothing waits until each attacker stands as the honest pod that it is like, which stands
// where it belongs.
func (a *attacked) gainNothing(t *testing.T, in map[string]attack) {
	t.Helper()
	places := map[string]standing{
		"ordinary":    {partition: partition.Default, class: v1.PodQOSBurstable, cpus: "1"},
		"without-cpu": {partition: partition.Default, class: v1.PodQOSBurstable, cpus: "1"},
		"member":      {partition: telemetry, class: v1.PodQOSBurstable, cpus: "0"},
		larger:        {partition: telemetry, class: v1.PodQOSBurstable, cpus: "0"},
	}
	a.await(t, "attackers like honest pods", func(ctx context.Context) (bool, string, error) {
		all, err := a.pods(ctx)
		if err != nil {
			return false, "", err
		}
		var wrong []error
		likes := map[string]standing{}
		for _, s := range honest() {
			got, err := all(s.namespace, s.name)
			if want := places[s.name]; err == nil && (got.partition != want.partition || got.class != want.class || got.cpus != want.cpus) {
				err = fmt.Errorf("%s: %+v; want %+v", s.name, got, want)
			}
			likes[s.name] = got
			wrong = append(wrong, err)
		}
		for _, one := range in {
			got, err := all(one.namespace, one.name)
			if want := likes[one.like]; err == nil && got != want {
				err = fmt.Errorf("%s: %+v; want %+v", one.name, got, want)
			}
			wrong = append(wrong, err)
		}
		err = errors.Join(wrong...)
		return err == nil, fmt.Sprint(err), nil
	})
}

// pods returns the standings of pods, by namespace and name.
func (a *attacked) pods(ctx context.Context) (func(namespace, name string) (standing, error), error) {
	list, err := a.control.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all, err := standings(ctx, a.Node)
	return func(namespace, name string) (standing, error) {
		for i := range list.Items {
			if pod := &list.Items[i]; pod.Namespace == namespace && pod.Name == name {
				return standingOf(all, pod)
			}
		}
		return standing{}, fmt.Errorf("no pod %s/%s", namespace, name)
	}, err
}

// saysWhy waits until the status of the monitor has the reason of each refusal.
func (a *attacked) saysWhy(t *testing.T, in map[string]attack) {
	t.Helper()
	a.await(t, "the reasons", func(ctx context.Context) (bool, string, error) {
		report, err := reportOf(ctx, a.Node)
		if err != nil {
			return false, "", err
		}
		seen := map[string]partition.Refusal{}
		for _, p := range report.Pods {
			name := p.Namespace + "/" + p.Name
			if _, ok := in[name]; !ok {
				continue
			}
			seen[name] = ""
			if p.Workload != nil {
				seen[name] = p.Workload.Refused
			}
		}
		var wrong []string
		for name, one := range in {
			if got, ok := seen[name]; !ok || got != one.refused {
				wrong = append(wrong, fmt.Sprintf("%s: %q, seen %t; want %q", name, got, ok, one.refused))
			}
		}
		return len(wrong) == 0, strings.Join(slices.Sorted(slices.Values(wrong)), "\n"), nil
	})
}

// asksLater adds the annotation to a pod that runs. The sandbox does not have it.
func (a *attacked) asksLater(t *testing.T, s spec) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"target.workload.openshift.io/telemetry":"{}"}}}`)
	_, err := a.control.Client().CoreV1().Pods(s.namespace).Patch(t.Context(), s.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Errorf("%s/%s asks later: %v", s.namespace, s.name, err)
	}
}

// mirror: the mark of a mirror pod, which the policies leave alone, makes a pod that no kubelet
// runs.
func (a *attacked) mirror(t *testing.T) {
	t.Helper()
	s := annotated(asking(spec{namespace: unallowed, name: "mirror", requests: few()}, "telemetry"), v1.MirrorPodAnnotationKey, "mirror")
	a.submit(t, s)
	a.await(t, "the kubelet deletes a mirror pod of nothing", func(ctx context.Context) (bool, string, error) {
		pod, err := a.control.Client().CoreV1().Pods(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err == nil && len(pod.Status.ContainerStatuses) > 0 {
			t.Errorf("a mirror pod of nothing runs: %+v", pod.Status)
		}
		return false, fmt.Sprintf("%+v", pod.Status), err
	})
}
