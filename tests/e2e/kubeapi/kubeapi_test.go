//go:build node

package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/tests/lab"
)

const (
	node      = "one"
	namespace = metav1.NamespaceSystem
	message   = "Partition system of the node was low on resource: memory. "
	// patience bounds the wait for changes that the API server applies soon, such as a new role.
	patience = time.Minute
)

// cluster is a control plane with the clients of its administrator and of the monitor.
type cluster struct {
	*lab.ControlPlane
	t       *testing.T
	admin   kubernetes.Interface
	monitor *kubeapi.Client      // as the node's kubelet
	kubelet kubernetes.Interface // the same user
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return clusterOf(t, lab.ControlPlaneForTest(t))
}

func clusterOf(t *testing.T, p *lab.ControlPlane) *cluster {
	t.Helper()
	c := &cluster{ControlPlane: p, t: t, admin: p.Client()}
	path := c.kubeconfig(func(*clientcmdapi.Config) {})
	var err error
	if c.monitor, err = kubeapi.New(path); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if c.kubelet, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOnAPIServer(t *testing.T) {
	c := newCluster(t)
	for name, test := range map[string]func(*cluster){
		"evicted":                 evicted,
		"reason dropped":          reasonDropped,
		"another UID":             anotherUID,
		"another node's":          anotherNodes,
		"with a budget":           withBudget,
		"being deleted":           beingDeleted,
		"changes meanwhile":       changesMeanwhile,
		"preconditions":           preconditions,
		"an event":                anEvent,
		"events about the node":   eventsAboutNode,
		"resources of types":      setCores,
		"what check asks for":     inventory,
		"a user without rights":   withoutRights,
		"a user with those named": withRights,
	} {
		t.Run(name, func(t *testing.T) {
			c := *c
			c.t = t
			test(&c)
		})
	}
}

// kubeconfig writes the kubeconfig of the node's kubelet for this machine, after change, and
// returns its path.
func (c *cluster) kubeconfig(change func(*clientcmdapi.Config)) string {
	c.t.Helper()
	data, err := c.Kubeconfig(node)
	if err != nil {
		c.t.Fatal(err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = fmt.Sprintf("https://127.0.0.1:%d", c.Port)
	}
	change(config)
	path := filepath.Join(c.t.TempDir(), "kubelet.conf")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// want checks the kind of an error.
func (c *cluster) want(err, want error) {
	c.t.Helper()
	if !errors.Is(err, want) {
		c.t.Errorf("error %v; want %v", err, want)
	} else if err != nil {
		c.t.Log(err)
	}
}

func (c *cluster) eventually(what string, done func(context.Context) (bool, error)) {
	c.t.Helper()
	if err := wait.PollUntilContextTimeout(c.t.Context(), 50*time.Millisecond, patience, true, done); err != nil {
		c.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// pod creates a pod that runs on a node, and waits until its kubelet may read it: the Node
// authorizer lags behind.
func (c *cluster) pod(name string, change func(*v1.Pod)) *v1.Pod {
	c.t.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "app", Image: "none"}}},
	}
	if change != nil {
		change(pod)
	}
	pod, err := c.admin.CoreV1().Pods(namespace).Create(c.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	then := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	pod.Status.Phase, pod.Status.StartTime = v1.PodRunning, &then
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: then})
	}
	if pod, err = c.admin.CoreV1().Pods(namespace).UpdateStatus(c.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	if pod.Spec.NodeName == node {
		c.eventually("the kubelet may see pod "+name, func(ctx context.Context) (bool, error) {
			_, err := c.kubelet.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil && !apierrors.IsForbidden(err) {
				return false, err
			}
			return err == nil, nil
		})
	}
	return pod
}

func (c *cluster) get(name string) *v1.Pod {
	c.t.Helper()
	pod, err := c.admin.CoreV1().Pods(namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return pod
}

func known(pod *v1.Pod) kubeapi.Pod {
	return kubeapi.Pod{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
}

// evict marks a pod as evicted now.
func evict(ctx context.Context, client *kubeapi.Client, pod kubeapi.Pod) error {
	return client.MarkEvicted(ctx, pod, time.Now(), func(*v1.Pod) string { return message })
}

// wantEvicted checks that a pod has the state in which the kubelet's eviction leaves it.
func (c *cluster) wantEvicted(before *v1.Pod) *v1.Pod {
	c.t.Helper()
	pod := c.get(before.Name)
	if pod.UID != before.UID || pod.Status.Phase != v1.PodFailed || pod.Status.Reason != "Evicted" || pod.Status.Message != message {
		c.t.Errorf("pod %s: phase %s, reason %q, message %q", pod.UID, pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	}
	conditions := map[v1.PodConditionType]v1.PodCondition{}
	for _, condition := range pod.Status.Conditions {
		if _, twice := conditions[condition.Type]; twice {
			c.t.Errorf("condition %s is there twice", condition.Type)
		}
		conditions[condition.Type] = condition
	}
	disrupted := conditions[v1.DisruptionTarget]
	if disrupted.Status != v1.ConditionTrue || disrupted.Reason != "TerminationByKubelet" || disrupted.Message != message ||
		disrupted.ObservedGeneration != before.Generation || before.Generation == 0 || time.Since(disrupted.LastTransitionTime.Time) > patience {
		c.t.Errorf("condition %+v", disrupted)
	}
	for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
		if got := conditions[kind]; got.Status != v1.ConditionFalse || got.Reason != "PodFailed" || time.Since(got.LastTransitionTime.Time) > patience {
			c.t.Errorf("condition %+v", got)
		}
	}
	for _, condition := range before.Status.Conditions {
		if got := conditions[condition.Type]; (condition.Type == v1.PodScheduled || condition.Type == v1.PodInitialized) && got.String() != condition.String() {
			c.t.Errorf("condition %+v; want %+v", got, condition)
		}
	}
	if !pod.Status.StartTime.Equal(before.Status.StartTime) {
		c.t.Errorf("started %s; want %s", pod.Status.StartTime, before.Status.StartTime)
	}
	return pod
}

// wantUntouched checks that a pod has not changed.
func (c *cluster) wantUntouched(before *v1.Pod) {
	c.t.Helper()
	if pod := c.get(before.Name); pod.UID != before.UID || pod.ResourceVersion != before.ResourceVersion {
		c.t.Errorf("pod %s has changed: %+v", before.Name, pod.Status)
	}
}

func evicted(c *cluster) {
	pod := c.pod("evicted", nil)
	c.want(evict(c.t.Context(), c.monitor, known(pod)), nil)
	marked := c.wantEvicted(pod)
	ours := false
	for _, field := range marked.ManagedFields {
		ours = ours || field.Manager == kubeapi.Component && field.Subresource == "status"
	}
	if !ours {
		c.t.Errorf("managers of fields %+v; want %s", marked.ManagedFields, kubeapi.Component)
	}
	c.want(evict(c.t.Context(), c.monitor, known(pod)), nil)
	c.wantUntouched(marked)
}

// reasonDropped: a kubelet may drop the reason with its first write.
func reasonDropped(c *cluster) {
	pod := c.pod("dropped", nil)
	c.want(evict(c.t.Context(), c.monitor, known(pod)), nil)
	marked := c.wantEvicted(pod)
	marked.Status.Reason, marked.Status.Message = "", ""
	if _, err := c.kubelet.CoreV1().Pods(namespace).UpdateStatus(c.t.Context(), marked, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.want(evict(c.t.Context(), c.monitor, known(pod)), nil)
	c.wantEvicted(pod)
}

// anotherUID: a pod of the same name, as a StatefulSet creates it, is another pod.
func anotherUID(c *cluster) {
	before := c.pod("recreated", nil)
	if err := c.admin.CoreV1().Pods(namespace).Delete(c.t.Context(), before.Name, *metav1.NewDeleteOptions(0)); err != nil {
		c.t.Fatal(err)
	}
	// The Node authorizer drops it a little later, and then the kubelet may not read it.
	c.eventually("the Node authorizer knows that the pod is gone", func(ctx context.Context) (bool, error) {
		c.want(evict(ctx, c.monitor, known(before)), kubeapi.ErrGone)
		_, err := c.kubelet.CoreV1().Pods(namespace).Get(ctx, before.Name, metav1.GetOptions{})
		return apierrors.IsForbidden(err), nil
	})
	c.want(evict(c.t.Context(), c.monitor, known(before)), kubeapi.ErrGone)
	after := c.pod("recreated", nil)
	c.want(evict(c.t.Context(), c.monitor, known(before)), kubeapi.ErrGone)
	c.wantUntouched(after)
}

func anotherNodes(c *cluster) {
	pod := c.pod("elsewhere", func(pod *v1.Pod) { pod.Spec.NodeName = "two" })
	c.want(evict(c.t.Context(), c.monitor, known(pod)), kubeapi.ErrForbidden)
	c.wantUntouched(pod)
}

// withBudget: a budget that allows no disruption stops the eviction API, and not us.
func withBudget(c *cluster) {
	pod := c.pod("budget", nil)
	one := intstr.FromInt32(1)
	_, err := c.admin.PolicyV1().PodDisruptionBudgets(namespace).Create(c.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the budget counts", func(ctx context.Context) (bool, error) {
		// EvictV1 would wait and try again.
		err := c.admin.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod.Name).SubResource("eviction").MaxRetries(0).
			Body(&policyv1.Eviction{
				TypeMeta:      metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
				ObjectMeta:    metav1.ObjectMeta{Name: pod.Name},
				DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
			}).Do(ctx).Error()
		return apierrors.IsTooManyRequests(err), nil
	})
	c.want(evict(c.t.Context(), c.monitor, known(pod)), nil)
	c.wantEvicted(pod)
}

func beingDeleted(c *cluster) {
	pod := c.pod("deleted", nil)
	if err := c.admin.CoreV1().Pods(namespace).Delete(c.t.Context(), pod.Name, *metav1.NewDeleteOptions(30)); err != nil {
		c.t.Fatal(err)
	}
	deleted := c.get(pod.Name)
	c.want(evict(c.t.Context(), c.monitor, known(pod)), nil)
	// The deletion increments its generation.
	if marked := c.wantEvicted(deleted); marked.DeletionTimestamp == nil || !marked.DeletionTimestamp.Equal(deleted.DeletionTimestamp) {
		c.t.Errorf("deleted at %s; want %s", marked.DeletionTimestamp, deleted.DeletionTimestamp)
	}
}

// changesMeanwhile: a pod that others change all the time is marked, and none of their changes is
// lost.
func changesMeanwhile(c *cluster) {
	pod := c.pod("busy", nil)
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	changed := make(chan int)
	started := make(chan struct{})
	go func() {
		n := 0
		defer func() { changed <- n }()
		for ctx.Err() == nil {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"count":"%d"}}}`, n+1)
			if _, err := c.admin.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return
			}
			if n++; n == 1 {
				close(started)
			}
		}
	}()
	<-started
	var err error
	c.eventually("the pod is marked", func(ctx context.Context) (bool, error) {
		err = evict(ctx, c.monitor, known(pod))
		return !errors.Is(err, kubeapi.ErrUnreachable), nil
	})
	stop()
	n := <-changed
	c.want(err, nil)
	// The interrupted change may have been made.
	marked := c.wantEvicted(pod)
	if count := marked.Annotations["count"]; count != fmt.Sprint(n) && count != fmt.Sprint(n+1) {
		c.t.Errorf("%s changes are seen; want %d", count, n)
	}
	c.t.Logf("changed %d times meanwhile", n)
}

// preconditions: MarkEvicted depends on the server's checks. A patch for another UID or another
// version is refused, and changes nothing.
func preconditions(c *cluster) {
	pod := c.pod("preconditions", nil)
	for metadata, refused := range map[string]func(error) bool{
		`"uid":"another"`:                                      apierrors.IsInvalid,
		`"uid":"another","resourceVersion":"1"`:                apierrors.IsConflict,
		fmt.Sprintf(`"uid":%q,"resourceVersion":"1"`, pod.UID): apierrors.IsConflict,
	} {
		patch := fmt.Appendf(nil, `{"metadata":{%s},"status":{"phase":"Failed"}}`, metadata)
		_, err := c.kubelet.CoreV1().Pods(namespace).Patch(c.t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if !refused(err) {
			c.t.Errorf("%s: error %v", metadata, err)
		}
	}
	c.wantUntouched(pod)
}

func anEvent(c *cluster) {
	pod := c.pod("event", nil)
	annotations := map[string]string{"starved_resource": "memory"}
	for range 2 { // two events stay two
		e := kubeapi.NewEvent(kubeapi.AboutPod(known(pod)), node, kubeapi.ReasonEvicted, message, time.Now())
		e.Annotations = annotations
		c.want(c.monitor.Event(c.t.Context(), e), nil)
	}
	// As kubectl describe selects them.
	selector := fmt.Sprintf("involvedObject.name=%s,involvedObject.namespace=%s,involvedObject.uid=%s,involvedObject.kind=Pod", pod.Name, namespace, pod.UID)
	list, err := c.admin.CoreV1().Events(namespace).List(c.t.Context(), metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		c.t.Fatal(err)
	}
	if len(list.Items) != 2 {
		c.t.Fatalf("events %+v; want two", list.Items)
	}
	for _, got := range list.Items {
		if got.Type != "Warning" || got.Reason != "Evicted" || got.Message != message || !maps.Equal(got.Annotations, annotations) ||
			got.Source != (v1.EventSource{Component: kubeapi.Component, Host: node}) || got.ReportingController != kubeapi.Component ||
			got.Count != 1 || time.Since(got.LastTimestamp.Time) > patience || !got.FirstTimestamp.Equal(&got.LastTimestamp) {
			c.t.Errorf("event %+v", got)
		}
	}
}

// account returns the monitor as a service account, whose name no role has.
func (c *cluster) account(name string) *kubeapi.Client {
	c.t.Helper()
	accounts := c.admin.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(c.t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	token, err := accounts.CreateToken(c.t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	client, err := kubeapi.New(c.kubeconfig(func(config *clientcmdapi.Config) {
		for user := range config.AuthInfos {
			config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
		}
	}))
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

func withoutRights(c *cluster) {
	pod := c.pod("forbidden", nil)
	client := c.account("nobody")
	for _, err := range []error{
		evict(c.t.Context(), client, known(pod)),
		client.Event(c.t.Context(), kubeapi.NewEvent(kubeapi.AboutPod(known(pod)), "", kubeapi.ReasonEvicted, "", time.Now())),
		client.EventRights(c.t.Context(), node),
		client.NodeRights(c.t.Context(), node, true),
		applied(client, node, kubeapi.Node{}),
	} {
		c.want(err, kubeapi.ErrForbidden)
		if err != nil && (!strings.Contains(err.Error(), "system:serviceaccount:kube-system:nobody") || !strings.Contains(err.Error(), "the user of /")) {
			c.t.Errorf("%v; want the user and its kubeconfig", err)
		}
	}
	c.wantUntouched(pod)
}

// withRights: the rights that the error of a user without them lists are sufficient.
func withRights(c *cluster) {
	pod := c.pod("granted", nil)
	client := c.account("somebody")
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: kubeapi.Component},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: kubeapi.Component},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "somebody"}},
	}
	if _, err := c.admin.RbacV1().ClusterRoles().Create(c.t.Context(), role, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.admin.RbacV1().ClusterRoleBindings().Create(c.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	e := kubeapi.NewEvent(kubeapi.AboutPod(known(pod)), node, kubeapi.ReasonEvicted, message, time.Now())
	var err error
	c.eventually("the role counts", func(ctx context.Context) (bool, error) {
		err = client.Event(ctx, e)
		return !errors.Is(err, kubeapi.ErrForbidden), nil
	})
	c.want(err, nil)
	c.want(evict(c.t.Context(), client, known(pod)), nil)
	c.wantEvicted(pod)
	c.want(client.EventRights(c.t.Context(), node), nil)
	c.node()
	c.want(client.NodeRights(c.t.Context(), node, true), nil)
	_, err = client.LookAtNode(c.t.Context(), node)
	c.want(err, nil)
	c.want(applied(client, node, kubeapi.Node{}), nil)
}
