//go:build node

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestControlPlane runs all tests that need no node on one control plane.
func TestControlPlane(t *testing.T) {
	p := ControlPlaneForTest(t)
	t.Run("identities", func(t *testing.T) { onControlPlane{t, p}.identities() })
	t.Run("controllers", func(t *testing.T) { onControlPlane{t, p}.controllers() })
	t.Run("scheduler", func(t *testing.T) { onControlPlane{t, p}.scheduled() })
	t.Run("hanging", func(t *testing.T) { onControlPlane{t, p}.hanging() })
	t.Run("interrupted", func(t *testing.T) { onControlPlane{t, p}.interrupted() })
}

// onControlPlane is a test on a control plane that other tests use, too.
type onControlPlane struct {
	*testing.T
	p *ControlPlane
}

// identities: a user without rights is authenticated and refused, and groups count.
func (t onControlPlane) identities() {
	list := func(user string, groups ...string) error {
		data, err := t.p.KubeconfigOf(user, groups...)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		config.Host = t.p.config.Host // the address for this machine, not for a node
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().Pods(v1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list("somebody", "a-group", "another"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "somebody"`) {
		t.Errorf("without rights: error %v", err)
	}
	if err := list("somebody", "a-group", "system:masters"); err != nil {
		t.Errorf("with rights by the second group: error %v", err)
	}
}

// controllers: sets whose template names a node get their pods there, without a scheduler, and
// again after the pods have failed.
func (t onControlPlane) controllers() {
	ctx, client := t.Context(), t.p.Client()
	if err := t.p.StartControllers(ctx, "no-such-controller"); err == nil || !strings.Contains(err.Error(), "is not in the list of known controllers") {
		t.Fatalf("unknown controller: error %v", err)
	}
	// Before the controllers start, so that the DaemonSet counts both when its status reports one.
	for _, name := range []string{"one", "two"} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := t.p.StartControllers(ctx, "daemonset-controller", "replicaset-controller"); err != nil {
		t.Fatal(err)
	}
	if err := t.p.StartControllers(ctx, "job-controller"); err == nil || !strings.Contains(err.Error(), "name all of them at once") {
		t.Errorf("started twice: error %v", err)
	}

	daemons := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "daemons"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "daemons"}}, Template: templateFor("daemons", "one")},
	}
	if _, err := client.AppsV1().DaemonSets(v1.NamespaceDefault).Create(ctx, daemons, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	replicas := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "replicas"},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "replicas"}}, Template: templateFor("replicas", "one")},
	}
	if _, err := client.AppsV1().ReplicaSets(v1.NamespaceDefault).Create(ctx, replicas, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	daemon, replica := t.waitPods("daemons", 1), t.waitPods("replicas", 1)
	for _, pod := range []v1.Pod{daemon[0], replica[0]} {
		if pod.Spec.NodeName != "one" {
			t.Errorf("pod %s is on node %q", pod.Name, pod.Spec.NodeName)
		}
	}
	err := waitFor(ctx, "status of the DaemonSet", pollInterval, func(ctx context.Context) (bool, string, error) {
		set, err := client.AppsV1().DaemonSets(v1.NamespaceDefault).Get(ctx, "daemons", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		s := set.Status
		return s.ObservedGeneration == set.Generation && s.DesiredNumberScheduled == 1 && s.CurrentNumberScheduled == 1, fmt.Sprintf("%+v", s), nil
	})
	if err != nil {
		t.Errorf("it is for the node of its template alone: %v", err)
	}

	for _, pod := range []v1.Pod{daemon[0], replica[0]} {
		failed := []byte(`{"status": {"phase": "Failed", "reason": "Evicted"}}`)
		if _, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, failed, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	t.waitPods("daemons", 1, daemon[0].UID)
	if pods := t.waitPods("replicas", 2); !slices.ContainsFunc(pods, func(pod v1.Pod) bool { return pod.UID == replica[0].UID }) {
		t.Errorf("the failed pod of the ReplicaSet is gone")
	}
}

// templateFor returns the template of a pod with this label and on this node.
func templateFor(app, node string) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Image: PodtoolImage}}},
	}
}

// waitPods waits until there are n pods with this label and none of the pods in gone.
func (t onControlPlane) waitPods(app string, n int, gone ...types.UID) []v1.Pod {
	t.Helper()
	var list *v1.PodList
	err := waitFor(t.Context(), "pods of "+app, pollInterval, func(ctx context.Context) (bool, string, error) {
		var err error
		list, err = t.p.Client().CoreV1().Pods(v1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return false, "", err
		}
		old := slices.ContainsFunc(list.Items, func(pod v1.Pod) bool { return slices.Contains(gone, pod.UID) })
		return len(list.Items) == n && !old, describePods(list.Items), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// scheduled: a pod that names no node gets one with room for it.
func (t onControlPlane) scheduled() {
	ctx, client := t.Context(), t.p.Client()
	room := v1.ResourceList{v1.ResourcePods: resource.MustParse("10")}
	node, err := client.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "with-room"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status = v1.NodeStatus{Capacity: room, Allocatable: room}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := t.p.StartScheduler(ctx); err != nil {
		t.Fatal(err)
	}
	if err := t.p.StartScheduler(ctx); err == nil || !strings.Contains(err.Error(), "it runs") {
		t.Errorf("started twice: error %v", err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "anywhere"}, Spec: templateFor("anywhere", "").Spec}
	if _, err := client.CoreV1().Pods(v1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = waitFor(ctx, "the pod on a node", pollInterval, func(ctx context.Context) (bool, string, error) {
		pod, err := client.CoreV1().Pods(v1.NamespaceDefault).Get(ctx, "anywhere", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return pod.Spec.NodeName == "with-room", fmt.Sprintf("on %q: %+v", pod.Spec.NodeName, pod.Status.Conditions), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// hanging: requests get no answer until the API server is resumed.
func (t onControlPlane) hanging() {
	if err := t.p.hang(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := t.p.Client().Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request while it hangs: error %v", err)
	}
	conn, err := net.Dial("tcp", loopbackAddress(t.p.Port))
	if err != nil {
		t.Errorf("a connection while it hangs: %v", err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := t.p.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := t.p.Client().CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a request afterwards: %v", err)
	}
}

// interrupted: connections are refused until the API server is back, with its earlier objects.
func (t onControlPlane) interrupted() {
	ctx, namespaces := t.Context(), t.p.Client().CoreV1().Namespaces()
	before, err := namespaces.Get(ctx, v1.NamespaceDefault, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := t.p.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", loopbackAddress(t.p.Port)); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a connection meanwhile: %v, error %v", conn, err)
	}
	if _, err := namespaces.Get(ctx, v1.NamespaceDefault, metav1.GetOptions{}); err == nil {
		t.Error("a request meanwhile is answered")
	}
	if err := t.p.Restore(ctx); err != nil {
		t.Fatal(err)
	}
	after, err := namespaces.Get(ctx, v1.NamespaceDefault, metav1.GetOptions{})
	if err != nil || after.UID != before.UID {
		t.Errorf("namespace %s afterwards, error %v; %s before", after.UID, err, before.UID)
	}
	logs := t.TempDir()
	if err := t.p.keepLogs(logs); err != nil {
		t.Fatal(err)
	}
	for name, starts := range map[string]int{"etcd.log": 0, "kube-apiserver.log": 2, "kube-controller-manager.log": 1} {
		data, err := os.ReadFile(filepath.Join(logs, name))
		if n := bytes.Count(data, []byte(`"Golang settings"`)); err != nil || n != starts {
			t.Errorf("%s has %d starts, want %d; error %v", name, n, starts, err)
		}
	}
}

// childControlPlane makes TestControlPlaneChild start one.
const childControlPlane = "LAB_TEST_CHILD_CONTROL_PLANE"

// TestControlPlaneChild is not a test: TestControlPlaneEndsWithItsTest runs it in another process.
func TestControlPlaneChild(t *testing.T) {
	if os.Getenv(childControlPlane) == "" {
		return
	}
	p, err := StartControlPlane(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("started in", p.Dir)
	select {} // until the parent ends us
}

// TestControlPlaneEndsWithItsTest: when the process of a test is killed, the programs end with it.
func TestControlPlaneEndsWithItsTest(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestControlPlaneChild$")
	cmd.Env = append(os.Environ(), childControlPlane+"=1")
	var said output
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		ended <- err
		cancel(fmt.Errorf("the child has ended: %w", err))
	}()
	err := waitFor(ctx, "a control plane", pollInterval, func(context.Context) (bool, string, error) {
		return strings.Contains(said.String(), "started in "), said.String(), nil
	})
	_, after, _ := strings.Cut(said.String(), "started in ")
	dir := strings.TrimSpace(after)
	before, findErr := programsIn(dir)
	killErr := cmd.Process.Kill()
	waitErr := <-ended
	if err := errors.Join(err, findErr, killErr); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(before); waitErr == nil || !slices.Equal(before, []string{"etcd", "kube-apiserver"}) {
		t.Errorf("ended with %v; programs in %s: %v", waitErr, dir, before)
	}
	err = waitFor(t.Context(), "the end of its programs", pollInterval, func(context.Context) (bool, string, error) {
		left, err := programsIn(dir)
		return len(left) == 0, strings.Join(left, " "), err
	})
	if err != nil {
		t.Error(err)
	}
	cache, err := defaultCache()
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.removeDeadControlPlanes(); err != nil || exists(dir) {
		t.Errorf("%s is there: %v, %v", dir, exists(dir), err)
	}
}
