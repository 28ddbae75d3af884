//go:build node

package kubeapi

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/command/render"
	"node-partition.io/node-partition/tests/admissionpods"
	"node-partition.io/node-partition/tests/fakenode"
	"node-partition.io/node-partition/tests/lab"
)

// TestAdmission: pods become on an API server what they become in Go.
func TestAdmission(t *testing.T) {
	admissionOn(newCluster(t), admission.PolicyV1)
}

// TestAdmissionVersions: so they do on older API servers, which have to be told to serve policies
// that change objects.
func TestAdmissionVersions(t *testing.T) {
	for _, minor := range lab.APIServers() {
		t.Run(minor, func(t *testing.T) {
			version := admission.PolicyV1
			var args []string
			if minor == "1.34" || minor == "1.35" {
				version = admission.PolicyV1Beta1
				args = []string{
					"--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
				}
			}
			admissionOn(clusterOf(t, lab.APIServerForTest(t, minor, args...)), version)
		})
	}
}

// admissionOn runs the tests of the rendered policies on an API server.
func admissionOn(c *cluster, version string) {
	table, wanted := admissionpods.Load(c.t)
	renderedForCluster(c, version)
	c.namespaces(table)
	c.apply(rendered(c.t, table, admission.PolicyCluster{APIVersion: version}))
	c.apply(strings.ReplaceAll(injector, "VERSION", version))
	c.admissionStarted()
	for name, test := range map[string]func(*cluster){
		"table":    func(c *cluster) { tableOfPods(c, table, wanted) },
		"changed":  changedPods,
		"resource": resourceOfNode,
		"bounds":   bounds,
		"required": func(c *cluster) { requiredPods(c, version) },
	} {
		c.t.Run(name, func(t *testing.T) {
			c := *c
			c.t = t
			test(&c)
		})
	}
}

func rendered(t *testing.T, table admissionpods.Table, cluster admission.PolicyCluster) string {
	t.Helper()
	cluster.Types = append(table.AdmissionTypes(), admissionpods.RandomTypes()...)
	text, err := admission.Policies(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// renderedForCluster: manifests have the version that the API server serves, and there are none
// while a node lacks the resource of a type.
func renderedForCluster(c *cluster, version string) {
	c.t.Helper()
	admin := c.Config()
	o := render.AdmissionOptions{Node: fakenode.New(c.t, typed).Host(), Kubeconfig: c.kubeconfig(func(config *clientcmdapi.Config) {
		for user := range config.AuthInfos {
			config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}
		}
	})}
	refused := func(o render.AdmissionOptions, texts ...string) {
		c.t.Helper()
		_, _, err := render.Admission(c.t.Context(), o)
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				c.t.Errorf("error %v; want one with %q", err, text)
			}
		}
	}
	c.node()
	refused(o, "telemetry.workload.openshift.io/cores is missing on the node "+node, "another.workload.openshift.io/cores is missing")
	as := o
	as.Kubeconfig = c.kubeconfig(func(*clientcmdapi.Config) {})
	refused(as, "list nodes", "not allowed", as.Kubeconfig)
	set := `{"status":{"allocatable":{"telemetry.workload.openshift.io/cores":"1k","another.workload.openshift.io/cores":"1k"}}}`
	_, err := c.admin.CoreV1().Nodes().PatchStatus(c.t.Context(), node, []byte(set))
	c.must(err)
	text, _, err := render.Admission(c.t.Context(), o)
	c.must(err)
	if !strings.Contains(text, "apiVersion: admissionregistration.k8s.io/"+version+"\nkind: MutatingAdmissionPolicy\n") ||
		!strings.Contains(text, "{'another': [''], 'telemetry': ['logging', 'telemetry']}") {
		c.t.Errorf("not of version %s, or not with the types:\n%s", version, text)
	}
	c.other()
	refused(o, "telemetry.workload.openshift.io/cores is missing on the node two")
	_, err = c.admin.CoreV1().Nodes().Patch(c.t.Context(), node, types.MergePatchType, []byte(`{"metadata":{"labels":{"pool":"a"}}}`), metav1.PatchOptions{})
	c.must(err)
	o.Selector = "pool=a"
	_, warnings, err := render.Admission(c.t.Context(), o)
	c.must(err)
	if len(warnings) > 0 {
		c.t.Errorf("warnings %q about what the cluster does not serve", warnings)
	}
	o.Selector = "pool=b"
	refused(o, "no Node has the labels of --selector=pool=b")
	o.ValidatingOnly = true
	text, _, err = render.Admission(c.t.Context(), o)
	c.must(err)
	if strings.Contains(text, "Mutating") {
		c.t.Errorf("policies that change pods, with ValidatingOnly:\n%s", text)
	}
}

// typed is the configuration of a node with two types.
const typed = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
workloadPartitions:
  telemetry: {cpuset: "1", namespaces: [telemetry], allowedNamespaces: [logging]}
  another: {cpuset: "0"}
`

// injector adds a sidecar to the pods of a namespace, before the policy of workloads or after it:
// an API server calls policies in any order.
const injector = `
apiVersion: admissionregistration.k8s.io/VERSION
kind: MutatingAdmissionPolicy
metadata: {name: zz-sidecar}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"]}
  matchConditions:
  - {name: inject, expression: "object.metadata.namespace == 'inject'"}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'proxy', image: 'none',
        resources: Object.spec.containers.resources{requests: {'cpu': '100m', 'memory': '1Mi'}, limits: {'cpu': '2'}}}}]
---
apiVersion: admissionregistration.k8s.io/VERSION
kind: MutatingAdmissionPolicyBinding
metadata: {name: zz-sidecar}
spec: {policyName: zz-sidecar}
`

// apply creates the objects of a file.
func (c *cluster) apply(text string) {
	c.t.Helper()
	c.must(c.CreateAll(c.t.Context(), []byte(text)))
}

// namespaces creates the namespaces of the table, and of random pods.
func (c *cluster) namespaces(table admissionpods.Table) {
	c.t.Helper()
	all := maps.Clone(table.Namespaces)
	for _, in := range admissionpods.RandomNamespaces() {
		all[in.Name] = admissionpods.Namespace{Annotations: in.Annotations}
	}
	for name, in := range all {
		namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: in.Annotations}}
		_, err := c.admin.CoreV1().Namespaces().Create(c.t.Context(), namespace, metav1.CreateOptions{})
		c.must(err)
		if in.LimitRange != nil {
			_, err := c.admin.CoreV1().LimitRanges(name).Create(c.t.Context(), &v1.LimitRange{
				ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{*in.LimitRange}},
			}, metav1.CreateOptions{})
			c.must(err)
		}
		if in.Quota != nil {
			c.quota(name, in.Quota)
		}
	}
}

// quota creates a quota of which nothing is used, as its controller would report it.
func (c *cluster) quota(namespace string, hard v1.ResourceList) {
	c.t.Helper()
	quotas := c.admin.CoreV1().ResourceQuotas(namespace)
	made, err := quotas.Create(c.t.Context(), &v1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Spec: v1.ResourceQuotaSpec{Hard: hard},
	}, metav1.CreateOptions{})
	c.must(err)
	made.Status = v1.ResourceQuotaStatus{Hard: hard, Used: v1.ResourceList{}}
	for name := range hard {
		made.Status.Used[name] = resource.MustParse("0")
	}
	_, err = quotas.UpdateStatus(c.t.Context(), made, metav1.UpdateOptions{})
	c.must(err)
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) create(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	return c.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// asking returns a pod that asks for a type and is converted.
func asking(namespace string) *v1.Pod {
	request := v1.ResourceList{v1.ResourceCPU: resource.MustParse("400m"), v1.ResourceMemory: resource.MustParse("1Mi")}
	return admissionpods.Case{
		Namespace: namespace, Asks: []string{"management"}, Containers: []v1.ResourceRequirements{{Requests: request}},
	}.Pod()
}

// admissionStarted waits until the API server has all policies, limits and quotas.
func (c *cluster) admissionStarted() {
	c.t.Helper()
	seen := func(what, namespace string, change func(*v1.Pod), is func(*v1.Pod, error) bool) {
		c.eventually(what, func(ctx context.Context) (bool, error) {
			pod := asking(namespace)
			change(pod)
			got, err := c.create(ctx, pod)
			if err == nil {
				// It may stay.
				_ = c.admin.CoreV1().Pods(namespace).Delete(ctx, got.Name, *metav1.NewDeleteOptions(0))
			}
			return is(got, err), nil
		})
	}
	nothing := func(*v1.Pod) {}
	seen("pods are converted", "shipped", nothing, func(pod *v1.Pod, err error) bool {
		return err == nil && pod.Annotations["resources.workload.openshift.io/c0"] != ""
	})
	seen("pods are validated", "shipped", func(pod *v1.Pod) {
		pod.Annotations["target.workload.openshift.io/telemetry"] = "{}"
	}, func(_ *v1.Pod, err error) bool { return err != nil })
	seen("sidecars are added", "inject", nothing, func(pod *v1.Pod, err error) bool {
		return err == nil && len(pod.Spec.Containers) == 2
	})
	for _, namespace := range []string{"limited", "level"} {
		seen("there are limits", namespace, func(pod *v1.Pod) { pod.Spec.Containers[0].Resources = v1.ResourceRequirements{} },
			func(pod *v1.Pod, err error) bool {
				return err == nil && pod.Annotations["kubernetes.io/limit-ranger"] != ""
			})
	}
	seen("there is a quota of CPU", "quota", nothing, func(_ *v1.Pod, err error) bool { return err != nil })
	seen("there is a quota of the resource", "cores", func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
	}, func(_ *v1.Pod, err error) bool { return err != nil })
}

// outcome returns the outcome of a creation.
func (c *cluster) outcome(pod *v1.Pod) (admissionpods.Outcome, error) {
	got, err := c.create(c.t.Context(), pod)
	if err != nil {
		return admissionpods.Outcome{Refused: err.Error()}, err
	}
	return admissionpods.OutcomeOf(got, got.Status.QOSClass), nil
}

func tableOfPods(c *cluster, table admissionpods.Table, wanted map[string]admissionpods.Outcome) {
	for _, of := range table.Pods {
		got, err := c.outcome(of.Pod())
		want := wanted[of.Name]
		switch {
		case of.Server != "":
			if err == nil || !strings.Contains(err.Error(), of.Server) {
				c.t.Errorf("%s: %s\nwant a refusal with %q", of.Name, got, of.Server)
			}
		case want.Refused != "":
			if err == nil || !strings.HasSuffix(err.Error(), " denied request: "+want.Refused) {
				c.t.Errorf("%s: %s\nwant a refusal with %q", of.Name, got, want.Refused)
			}
		case got.String() != want.String():
			c.t.Errorf("%s:\n%s\nwant\n%s", of.Name, got, want)
		}
	}
}

// changedPods: what a conversion has written stays as it is while the pod is there.
func changedPods(c *cluster) {
	pods := c.admin.CoreV1().Pods("shipped")
	pod, err := c.create(c.t.Context(), asking("shipped"))
	c.must(err)
	patch := func(patch, subresource string) error {
		var under []string
		if subresource != "" {
			under = append(under, subresource)
		}
		_, err := pods.Patch(c.t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, under...)
		return err
	}
	const cpuset = `{"metadata":{"annotations":{"resources.workload.openshift.io/c0":"{\"cpuset\":\"0\"}"}}}`
	for _, test := range []struct{ name, patch, subresource, refused string }{
		{"annotation", cpuset, "", "can not be changed"},
		{"annotation over the status", cpuset, "status", "can not be changed"},
		{"target removed", `{"metadata":{"annotations":{"target.workload.openshift.io/management":null}}}`, "", "can not be changed"},
		{"another annotation", `{"metadata":{"annotations":{"a":"b"}}}`, "", ""},
		{"target in another form", `{"metadata":{"annotations":{"target.workload.openshift.io/management":"{\"effect\": \"PreferredDuringScheduling\"}"}}}`, "", ""},
		{"status", `{"status":{"message":"m"}}`, "status", ""},
		{
			"request of CPU", `{"spec":{"containers":[{"name":"c0","resources":{"requests":{"cpu":"2"}}}]}}`, "resize",
			"can not get a request or a limit of cpu",
		},
		{"request of memory", `{"spec":{"containers":[{"name":"c0","resources":{"requests":{"memory":"2Mi"}}}]}}`, "resize", ""},
		{"ephemeral container", `{"spec":{"ephemeralContainers":[{"name":"e0","image":"none"}]}}`, "ephemeralcontainers", ""},
		{
			"ephemeral container with CPU",
			`{"spec":{"ephemeralContainers":[{"name":"e1","image":"none","resources":{"requests":{"cpu":"1"}}}]}}`, "ephemeralcontainers",
			"cannot be set for an Ephemeral Container",
		},
	} {
		err := patch(test.patch, test.subresource)
		if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			c.t.Errorf("%s: error %v; want %q", test.name, err, test.refused)
		}
	}
	for key, refused := range map[string]bool{"a": false, "resources.workload.openshift.io/c0": true} {
		for name, bind := range map[string]func(*v1.Binding) error{
			"pods/binding": func(b *v1.Binding) error { return pods.Bind(c.t.Context(), b, metav1.CreateOptions{}) },
			"bindings": func(b *v1.Binding) error {
				return c.admin.CoreV1().RESTClient().Post().Namespace("shipped").Resource("bindings").Body(b).Do(c.t.Context()).Error()
			},
		} {
			waits, err := c.create(c.t.Context(), asking("shipped"))
			c.must(err)
			err = bind(&v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: waits.Name, Namespace: "shipped", Annotations: map[string]string{key: `{"cpuset":"0"}`}},
				Target:     v1.ObjectReference{Kind: "Node", Name: node},
			})
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "a binding can not have") {
				c.t.Errorf("%s with %s: error %v; want it refused: %t", name, key, err, refused)
			}
		}
	}
	plain, err := c.create(c.t.Context(), admissionpods.Case{Namespace: "plain", Containers: make([]v1.ResourceRequirements, 1)}.Pod())
	c.must(err)
	plain.Annotations = asking("plain").Annotations
	if _, err := c.admin.CoreV1().Pods("plain").Update(c.t.Context(), plain, metav1.UpdateOptions{}); err == nil {
		c.t.Error("a running pod asks for a type")
	}
}

// resourceOfNode: the kubelet of a node does not set the resource to zero, and removes it.
func resourceOfNode(c *cluster) {
	c.node()
	const cores = "management.workload.openshift.io/cores"
	set := func(as string, value string) v1.NodeStatus {
		c.t.Helper()
		client := c.kubelet
		if as == "admin" {
			client = c.admin
		}
		patch := fmt.Sprintf(`{"status":{"capacity":{%q:%s},"allocatable":{%q:%s}}}`, cores, value, cores, value)
		got, err := client.CoreV1().Nodes().PatchStatus(c.t.Context(), node, []byte(patch))
		c.must(err)
		return got.Status
	}
	for _, test := range []struct{ as, value, want string }{
		{"kubelet", `"4000"`, "4k"},
		{"kubelet", `"0"`, "4k"},
		{"kubelet", `"8000"`, "8k"},
		{"kubelet", `"6"`, "6"},
		{"admin", `"0"`, "0"},
		{"kubelet", `"0"`, "0"},
		{"kubelet", `"4000"`, "4k"},
		{"kubelet", `null`, ""},
		{"kubelet", `"0"`, "0"},
	} {
		status := set(test.as, test.value)
		for field, list := range map[string]v1.ResourceList{"capacity": status.Capacity, "allocatable": status.Allocatable} {
			q, ok := list[cores]
			if got := q.String(); ok != (test.want != "") || ok && got != test.want {
				c.t.Errorf("%s sets %s: %s is %s; want %s", test.as, test.value, field, got, test.want)
			}
		}
	}
}

// requiredPods: a pod in a namespace of members requires the monitor. A node-critical pod there and
// a pod elsewhere do not.
func requiredPods(c *cluster, version string) {
	text, err := admission.Policies(admission.PolicyCluster{APIVersion: version, Required: true, Members: []string{"required"}})
	c.must(err)
	c.apply(text)
	_, err = c.admin.CoreV1().Namespaces().Create(c.t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "required"}}, metav1.CreateOptions{})
	c.must(err)
	requires := func(ctx context.Context, namespace, class string) (bool, error) {
		pod := admissionpods.Case{Namespace: namespace, Containers: make([]v1.ResourceRequirements, 1)}.Pod()
		pod.Spec.PriorityClassName = class
		got, err := c.create(ctx, pod)
		if err != nil {
			return false, err
		}
		return got.Annotations["required-plugins.noderesource.dev"] == `["node-partition"]`, nil
	}
	c.eventually("a member requires the monitor", func(ctx context.Context) (bool, error) { return requires(ctx, "required", "") })
	for _, of := range []struct{ namespace, class string }{{"required", "system-node-critical"}, {"plain", ""}} {
		if is, err := requires(c.t.Context(), of.namespace, of.class); is || err != nil {
			c.t.Errorf("a pod of %q in %s requires the monitor: %t, %v", of.class, of.namespace, is, err)
		}
	}
}

// TestAdmissionWithoutMutation: without policies that change objects, what users write is refused.
func TestAdmissionWithoutMutation(t *testing.T) {
	c := newCluster(t)
	table, _ := admissionpods.Load(t)
	c.namespaces(table)
	c.apply(rendered(t, table, admission.PolicyCluster{ValidatingOnly: true}))
	c.eventually("pods are validated", func(ctx context.Context) (bool, error) {
		pod := asking("plain")
		_, err := c.create(ctx, pod)
		return err != nil, nil
	})
	for name, refused := range map[string]string{
		"burstable": "", "best effort": "", "guaranteed": "", "no annotation": "",
		"namespace without an annotation":      "does not allow the workload type management",
		"type that no node has":                "does not allow the workload type batch",
		"CPU set and shares of a user":         "are written by the conversion",
		"annotations of a user without a type": "are written by the conversion",
		"resource of a user":                   "can not request workload resources",
		"resource without a type":              "can not request workload resources",
		"copy of a converted pod":              "",
		"two types":                            "more than one workload annotation",
		"hard effect":                          "only effect that is supported",
	} {
		for _, of := range table.Pods {
			if of.Name != name {
				continue
			}
			before := of.Pod()
			admissionpods.SetDefaults(before)
			want := admissionpods.OutcomeOf(before, admissionpods.ClassOf(before))
			got, err := c.outcome(of.Pod())
			switch {
			case (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused):
				t.Errorf("%s: error %v; want %q", name, err, refused)
			case err == nil && got.String() != want.String():
				t.Errorf("%s:\n%s\nwant it as it was:\n%s", name, got, want)
			}
		}
	}
}

// TestAdmissionNotServed: an API server that serves no policies that change objects is told apart.
func TestAdmissionNotServed(t *testing.T) {
	c := clusterOf(t, lab.APIServerForTest(t, "1.35"))
	_, _, err := render.Admission(t.Context(), render.AdmissionOptions{
		Node: fakenode.New(t, typed).Host(), Kubeconfig: c.kubeconfig(func(*clientcmdapi.Config) {}),
	})
	if err == nil || !strings.Contains(err.Error(), "serves no MutatingAdmissionPolicy") {
		t.Errorf("error %v; want one that says what to switch on", err)
	}
}
