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

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
)

// operators is the namespace whose pods may ask for types.
const operators = "operators"

// typedNode is a node with workload types, whose pods come from controllers and a scheduler, and
// from manifests.
type typedNode struct {
	*workloads
	groups []group
}

// group is the pods of one specification, and where they belong.
type group struct {
	spec
	make      func(*typedNode, *testing.T, spec)
	partition partition.Name
	class     v1.PodQOSClass
	cpus      string
}

// newTypedNode returns a node that has the resource of a type, with controllers and a scheduler.
func newTypedNode(t *testing.T, flavour, section string) *typedNode {
	t.Helper()
	r := &typedNode{workloads: newWorkloads(t, flavour, section)}
	for _, name := range []string{operators, string(telemetry)} {
		namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := r.control.Client().CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.control.StartScheduler(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.control.StartControllers(t.Context(), "deployment-controller", "replicaset-controller", "daemonset-controller"); err != nil {
		t.Fatal(err)
	}
	r.hasCores(t, "telemetry", allCores)
	return r
}

// applied applies the policies of render admission, and waits until the API server follows them.
func (r *typedNode) applied(t *testing.T) {
	t.Helper()
	apply := func(manifests string) error { return r.control.CreateAll(t.Context(), []byte(manifests)) }
	if err := apply(r.rendered(t)); err != nil {
		t.Fatal(err)
	}
	policiesFollowed(t, r.evictor)
}

// rendered returns what render admission prints, which asks the API server as an administrator.
func (e *evictor) rendered(t *testing.T) string {
	t.Helper()
	admin, err := e.control.KubeconfigOf("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.WriteFile(t.Context(), "/root/admin.conf", admin, 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, e.Node, monitorPath+" render admission --kubeconfig=/root/admin.conf")
}

// policiesFollowed waits until the API server converts pods and refuses what users may not write.
func policiesFollowed(t *testing.T, e *evictor) {
	t.Helper()
	try := func(ctx context.Context, asked ...string) (*v1.Pod, error) {
		pod := asking(spec{namespace: operators, name: "tried", requests: resources("100m", "16Mi")}, asked...).pod()
		return e.control.Client().CoreV1().Pods(operators).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	eventually(t, e.Node, "the API server follows the policies", func(ctx context.Context) (bool, string, error) {
		pod, err := try(ctx, "telemetry")
		if err != nil || pod.Annotations["resources.workload.openshift.io/main"] == "" {
			return false, "pods are not converted", err
		}
		_, err = try(ctx, "telemetry", "management")
		return err != nil, "pods are not validated", nil
	})
}

// template returns the pod template of a controller, for any node.
func (s spec) template() (*metav1.LabelSelector, v1.PodTemplateSpec) {
	pod, labels := s.pod(), map[string]string{"app": s.name}
	return &metav1.LabelSelector{MatchLabels: labels}, v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: pod.Annotations}, Spec: pod.Spec,
	}
}

func (r *typedNode) byDeployment(t *testing.T, s spec) {
	t.Helper()
	selector, template := s.template()
	_, err := r.control.Client().AppsV1().Deployments(s.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *typedNode) byDaemonSet(t *testing.T, s spec) {
	t.Helper()
	selector, template := s.template()
	_, err := r.control.Client().AppsV1().DaemonSets(s.namespace).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// byManifest runs a static pod of the type telemetry, converted by render pod.
func (r *typedNode) byManifest(t *testing.T, s spec) {
	t.Helper()
	if err := r.WriteFile(t.Context(), "/root/pod.json", s.manifest(t), 0o600); err != nil {
		t.Fatal(err)
	}
	converted := run(t, r.Node, monitorPath+" render pod --type=telemetry < /root/pod.json")
	if _, err := r.ApplyPod(t.Context(), []byte(converted)); err != nil {
		t.Fatal(err)
	}
}

// scheduled creates a pod that a scheduler has to place.
func (r *typedNode) scheduled(t *testing.T, s spec) {
	t.Helper()
	if _, err := r.control.Client().CoreV1().Pods(s.namespace).Create(t.Context(), s.pod(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// created creates the pods of all groups and waits until they stand where they belong.
func (r *typedNode) created(t *testing.T, groups ...group) {
	t.Helper()
	for _, g := range groups {
		g.make(r, t, g.spec)
	}
	r.groups = groups
	r.stand(t)
}

// of returns the pods of a group that are not being deleted and have not ended.
func (r *typedNode) of(ctx context.Context, g group) ([]v1.Pod, error) {
	list, err := r.control.Client().CoreV1().Pods(g.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p v1.Pod) bool {
		return !strings.HasPrefix(p.Name, g.name+"-") || p.DeletionTimestamp != nil || p.Status.Phase == v1.PodFailed ||
			p.Status.Phase == v1.PodSucceeded
	}), nil
}

// stand waits until the pods of each group run where they belong, on the CPUs of their partition.
func (r *typedNode) stand(t *testing.T) {
	t.Helper()
	r.await(t, "the pods where they belong", func(ctx context.Context) (bool, string, error) {
		all, err := standings(ctx, r.Node)
		if err != nil {
			return false, "", err
		}
		var wrong []error
		for _, g := range r.groups {
			wrong = append(wrong, r.groupStands(ctx, all, g))
		}
		err = errors.Join(wrong...)
		return err == nil, fmt.Sprint(err), nil
	})
}

func (r *typedNode) groupStands(ctx context.Context, all map[string]standing, g group) error {
	pods, err := r.of(ctx, g)
	if err != nil {
		return err
	}
	if len(pods) != 1 {
		return fmt.Errorf("%s/%s: %d pods", g.namespace, g.name, len(pods))
	}
	s, err := standingOf(all, &pods[0])
	if err == nil && (s.partition != g.partition || s.class != g.class || s.cpus != g.cpus) {
		err = fmt.Errorf("%s/%s: %+v", g.namespace, g.name, s)
	}
	return err
}

// identities describes the containers of all pods as the kubelet has them, by pod. A pod that fails
// the kubelet's admission has another phase.
func (r *typedNode) identities(ctx context.Context) (map[string]identity, error) {
	pods, err := r.Pods(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]identity{}
	for i := range pods {
		id := identity{uid: pods[i].UID, phase: pods[i].Status.Phase, reason: pods[i].Status.Reason}
		for _, c := range pods[i].Status.ContainerStatuses {
			id.container, id.restarts = c.ContainerID, id.restarts+c.RestartCount
		}
		all[pods[i].Namespace+"/"+pods[i].Name] = id
	}
	return all, nil
}

type identity struct {
	uid       types.UID
	phase     v1.PodPhase
	reason    string
	container string
	restarts  int32
}

// known returns the identities of the pods, all of which run.
func (r *typedNode) known(t *testing.T) map[string]identity {
	t.Helper()
	all, err := r.identities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// become waits until the pods have these identities.
func (r *typedNode) become(t *testing.T, wanted map[string]identity) {
	t.Helper()
	eventually(t, r.Node, "the same pods", func(ctx context.Context) (bool, string, error) {
		now, err := r.identities(ctx)
		return err == nil && maps.Equal(now, wanted), differences(now, wanted), err
	})
}

// differences lists the pods that are not as wanted.
func differences(now, wanted map[string]identity) string {
	var lines []string
	for name, want := range wanted {
		if got := now[name]; got != want {
			lines = append(lines, fmt.Sprintf("%s: %+v; want %+v", name, got, want))
		}
	}
	for name, got := range now {
		if _, ok := wanted[name]; !ok {
			lines = append(lines, fmt.Sprintf("%s: %+v is new", name, got))
		}
	}
	return strings.Join(lines, "\n")
}

// restartKubelet restarts the kubelet and waits until it is ready.
func (r *typedNode) restartKubelet(t *testing.T) {
	t.Helper()
	run(t, r.Node, "systemctl reset-failed kubelet.service; systemctl restart kubelet.service")
	if err := r.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// admitted waits until the kubelet has admitted a pod that is new: all others were admitted before.
func (r *typedNode) admitted(t *testing.T) {
	t.Helper()
	last := spec{namespace: v1.NamespaceDefault, name: "admitted-last"}
	r.create(t, last)
	r.delete(t, last.namespace, last.name)
	eventually(t, r.Node, "the last pod gone", func(ctx context.Context) (bool, string, error) {
		_, err := r.control.Client().CoreV1().Pods(last.namespace).Get(ctx, last.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err), nil
	})
	r.gone(t, last.name)
}

// overwritten counts how often the monitor found a value of others on the Node in this boot.
func overwritten(t *testing.T, n *lab.Node) string {
	t.Helper()
	return run(t, n, "journalctl -b -o cat --no-pager -u "+monitorUnit+" | grep -c 'has changed the resource of a workload type' || true")
}
