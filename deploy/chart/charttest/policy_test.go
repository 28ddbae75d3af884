package charttest

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

const dispatcher = "system:serviceaccount:node-partition:node-partition-dispatcher"

// environmentOf returns CEL as the oldest API server of kubeVersion has it. It checks no types: an
// API server compares the fields with its schema, too.
func environmentOf(t *testing.T) *cel.Env {
	t.Helper()
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 30)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
			cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return set.NewExpressionsEnv()
}

// evaluate returns the value of an expression, or its error.
func evaluate(t *testing.T, env *cel.Env, expression string, of map[string]any) (any, error) {
	t.Helper()
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := env.Program(compiled)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(of)
	if err != nil {
		return nil, err
	}
	return value.Value(), nil
}

// denied returns why a policy denies a request, or nothing.
func denied(t *testing.T, policy admissionv1.ValidatingAdmissionPolicy, request, object, oldObject map[string]any) string {
	t.Helper()
	env := environmentOf(t)
	of := map[string]any{"request": request, "object": object, "oldObject": oldObject}
	for _, c := range policy.Spec.MatchConditions {
		value, err := evaluate(t, env, c.Expression, of)
		if err != nil {
			t.Fatal(err)
		}
		if value == false {
			return ""
		}
	}
	variables := map[string]any{}
	of["variables"] = variables
	for _, v := range policy.Spec.Variables {
		// As in an API server, a variable that cannot be had fails where it is used.
		if value, err := evaluate(t, env, v.Expression, of); err == nil {
			variables[v.Name] = value
		}
	}
	for _, v := range policy.Spec.Validations {
		value, err := evaluate(t, env, v.Expression, of)
		if err != nil {
			return err.Error()
		}
		if value != true {
			return v.Message
		}
	}
	return ""
}

// asMap returns an object as an API server passes it on.
func asMap(t *testing.T, o any) map[string]any {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func request(operation, namespace string) map[string]any {
	return map[string]any{
		"operation": operation, "namespace": namespace, "userInfo": map[string]any{"username": dispatcher},
	}
}

// TestNodePolicy: the dispatcher writes labels of this project on a Node, and nothing else.
func TestNodePolicy(t *testing.T) {
	t.Parallel()
	policy := decode(t, least).policies["node-partition-dispatcher-nodes"]
	const node = `{"metadata": {"name": "a", "labels": {"zone": "b", "node-partition.io/state": "kept"}, "annotations": {"x": "y"},
		"finalizers": ["f"], "ownerReferences": [{"kind": "Machine", "name": "m"}]}, "spec": {"taints": [{"key": "k"}], "podCIDR": "c"}}`
	before := func() map[string]any {
		var n map[string]any
		if err := json.Unmarshal([]byte(node), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		name   string
		change func(metadata, spec map[string]any)
		want   string
	}{
		{"nothing", func(_, _ map[string]any) {}, ""},
		{"a label of ours is set", func(m, _ map[string]any) {
			m["labels"] = map[string]any{"zone": "b", "node-partition.io/state": "failed", "node-partition.io/reason": "check"}
		}, ""},
		{"labels of ours are removed", func(m, _ map[string]any) { m["labels"] = map[string]any{"zone": "b"} }, ""},
		{"another label is changed", func(m, _ map[string]any) { m["labels"] = map[string]any{"zone": "c"} }, "labels with the prefix"},
		{"another label is removed", func(m, _ map[string]any) { m["labels"] = map[string]any{} }, "labels with the prefix"},
		{"all labels are removed", func(m, _ map[string]any) { delete(m, "labels") }, "labels with the prefix"},
		{"another label is added", func(m, _ map[string]any) {
			m["labels"] = map[string]any{"zone": "b", "node-role.kubernetes.io/control-plane": ""}
		}, "labels with the prefix"},
		{"a label that begins alike", func(m, _ map[string]any) {
			m["labels"] = map[string]any{"zone": "b", "node-partition.iox/state": ""}
		}, "labels with the prefix"},
		{"a taint is removed", func(_, s map[string]any) { delete(s, "taints") }, "spec of a Node"},
		{"the node is cordoned", func(_, s map[string]any) { s["unschedulable"] = true }, "spec of a Node"},
		{"an annotation", func(m, _ map[string]any) { m["annotations"] = map[string]any{"x": "z"} }, "annotations of a Node"},
		{"an annotation of ours", func(m, _ map[string]any) {
			m["annotations"] = map[string]any{"x": "y", "node-partition.io/a": "b"}
		}, "annotations of a Node"},
		{"a finalizer is removed", func(m, _ map[string]any) { delete(m, "finalizers") }, "finalizers of a Node"},
		{"an owner is removed", func(m, _ map[string]any) { delete(m, "ownerReferences") }, "owners of a Node"},
		{"an owner is added", func(m, _ map[string]any) {
			m["ownerReferences"] = []any{map[string]any{"kind": "Pod", "name": "gone"}}
		}, "owners of a Node"},
	} {
		after := before()
		c.change(after["metadata"].(map[string]any), after["spec"].(map[string]any))
		got := denied(t, policy, request("UPDATE", ""), after, before())
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: denied with %q, want %q", c.name, got, c.want)
		}
	}
	for _, operation := range []string{"CREATE", "DELETE"} {
		if got := denied(t, policy, request(operation, ""), before(), before()); !strings.Contains(got, "neither makes nor deletes") {
			t.Errorf("%s: %q", operation, got)
		}
	}
	status := request("UPDATE", "")
	status["subResource"] = "status"
	if got := denied(t, policy, status, before(), before()); got == "" {
		t.Error("the status of a Node is changed")
	}
	kubelet := request("UPDATE", "")
	kubelet["userInfo"] = map[string]any{"username": "system:node:a"}
	if got := denied(t, policy, kubelet, map[string]any{}, before()); got != "" {
		t.Errorf("somebody else is denied: %s", got)
	}
}

// TestJobPolicy: the dispatcher makes the Job of the chart for a node, and no other one.
func TestJobPolicy(t *testing.T) {
	t.Parallel()
	for _, values := range []string{least, full} {
		all := decode(t, values)
		policy := all.policies["node-partition-dispatcher-jobs"]
		for key, job := range all.node {
			// What an API server sets, and what the dispatcher adds.
			job.Spec.Template.Spec.DNSPolicy = v1.DNSClusterFirst
			job.Spec.Template.Spec.Affinity = &v1.Affinity{}
			job.Spec.Template.Spec.Containers[0].Env = []v1.EnvVar{{Name: "NODE_PARTITION_NODE", Value: "a"}}
			if got := denied(t, policy, request("CREATE", "node-partition"), asMap(t, job), nil); got != "" {
				t.Errorf("%s is denied: %s", key, got)
			}
		}
	}
	yes, no := true, false
	all := decode(t, least)
	policy := all.policies["node-partition-dispatcher-jobs"]
	host := func(path string) v1.Volume {
		return v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}}}
	}
	for _, c := range []struct {
		name   string
		change func(pod *v1.PodSpec)
	}{
		{"another image", func(p *v1.PodSpec) { p.Containers[0].Image = "registry.example/other" }},
		{"another image in a stage", func(p *v1.PodSpec) { p.InitContainers[2].Image = "registry.example/other" }},
		{"another program", func(p *v1.PodSpec) { p.Containers[0].Command = []string{"/partition-fleet"} }},
		{"the image's own program", func(p *v1.PodSpec) { p.Containers[0].Command = nil }},
		{"the root of the host", func(p *v1.PodSpec) { p.Volumes = append(p.Volumes, host("/")) }},
		{"another folder in place of one", func(p *v1.PodSpec) { p.Volumes[1].HostPath.Path = "/etc" }},
		{"one folder twice", func(p *v1.PodSpec) { p.Volumes[1].HostPath.Path = p.Volumes[0].HostPath.Path }},
		{"a folder below", func(p *v1.PodSpec) { p.Volumes[1].HostPath.Path += "/.." }},
		{"a Secret", func(p *v1.PodSpec) {
			p.Volumes = append(p.Volumes, v1.Volume{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}})
		}},
		{"another ConfigMap", func(p *v1.PodSpec) { p.Volumes[2].ConfigMap.Name = "kube-root-ca.crt" }},
		{"processes of the host", func(p *v1.PodSpec) { p.HostPID = true }},
		{"the network of the host", func(p *v1.PodSpec) { p.HostNetwork = true }},
		{"the IPC of the host", func(p *v1.PodSpec) { p.HostIPC = true }},
		{"processes of each other", func(p *v1.PodSpec) { p.ShareProcessNamespace = &yes }},
		{"privileged", func(p *v1.PodSpec) { p.InitContainers[0].SecurityContext.Privileged = &yes }},
		{"escalation", func(p *v1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil }},
		{"a root that is written", func(p *v1.PodSpec) { p.Containers[0].SecurityContext.ReadOnlyRootFilesystem = &no }},
		{"no security at all", func(p *v1.PodSpec) { p.Containers[0].SecurityContext = nil }},
		{"a capability", func(p *v1.PodSpec) { p.Containers[0].SecurityContext.Capabilities.Add = []v1.Capability{"SYS_ADMIN"} }},
		{"capabilities that are not dropped", func(p *v1.PodSpec) { p.Containers[0].SecurityContext.Capabilities = nil }},
		{"the dispatcher's account", func(p *v1.PodSpec) { p.ServiceAccountName = "node-partition-dispatcher" }},
		{"the default account", func(p *v1.PodSpec) { p.ServiceAccountName = "" }},
		{"a token", func(p *v1.PodSpec) { p.AutomountServiceAccountToken = nil }},
	} {
		job := all.node["job.yaml"]
		copied := job.DeepCopy()
		c.change(&copied.Spec.Template.Spec)
		if got := denied(t, policy, request("CREATE", "node-partition"), asMap(t, copied), nil); got == "" {
			t.Errorf("%s: is allowed", c.name)
		}
	}
	if got := denied(t, policy, request("CREATE", "kube-system"), asMap(t, all.node["job.yaml"]), nil); got == "" {
		t.Error("a Job in another namespace is allowed")
	}
	other := request("CREATE", "kube-system")
	other["userInfo"] = map[string]any{"username": "somebody"}
	if got := denied(t, policy, other, asMap(t, batchv1.Job{}), nil); got != "" {
		t.Errorf("the Job of somebody else is denied: %s", got)
	}
}

// TestPoliciesAreBound: each policy is in force.
func TestPoliciesAreBound(t *testing.T) {
	t.Parallel()
	all := decode(t, least)
	left := maps.Clone(all.policies)
	for _, b := range all.policyBindings {
		if len(b.Spec.ValidationActions) != 1 || b.Spec.ValidationActions[0] != admissionv1.Deny || b.Spec.MatchResources != nil {
			t.Errorf("%s is bound with %+v", b.Name, b.Spec)
		}
		delete(left, b.Spec.PolicyName)
	}
	for name, p := range all.policies {
		if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("%s allows what it cannot judge", name)
		}
	}
	if len(left) > 0 || len(all.policies) != 2 {
		t.Errorf("policies without a binding: %v", left)
	}
}
