//go:build node

package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/nodepod"
	"node-partition.io/node-partition/rollout/plan"
	"node-partition.io/node-partition/rollout/section"
	"node-partition.io/node-partition/tests/lab"
)

// holder returns a client of whoever has the controller's token, or that of another account.
func (c *cluster) holder(user string) kubernetes.Interface {
	c.t.Helper()
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	c.must(err)
	return client
}

// TestPodPolicy: the holder of the controller's token makes the pod of the template, and no other.
func TestPodPolicy(t *testing.T) { podPolicyOn(t, newCluster(t)) }

// TestPodPolicyVersions: so it is on older API servers.
func TestPodPolicyVersions(t *testing.T) {
	for _, minor := range lab.APIServers() {
		t.Run(minor, func(t *testing.T) { podPolicyOn(t, clusterOf(t, lab.APIServerForTest(t, minor))) })
	}
}

func podPolicyOn(t *testing.T, c *cluster) {
	t.Helper()
	holder := c.holder(account)
	p := &v1alpha1.NodePartition{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	p.Spec.Rollout.Trial.Duration = 10 * 60e9
	p.Spec.MonitorArgs = []string{"--memory-burst", "--listen=[::]:9948", "--web.config.file=/etc/x_y.yaml"}
	p.Spec.Tolerations = []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpExists}}
	s := section.Section{Text: "kind: x", Hash: strings.Repeat("ab", 32)}
	start := plan.Start{Node: "ip-10-0-0-1.example", Mode: plan.Apply}
	try := func(mode plan.Mode, change func(*v1.Pod)) error {
		pod := nodepod.Of(settings, p, s, "want", plan.Start{Node: start.Node, Mode: mode})
		change(pod)
		_, err := holder.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	c.eventually("the policy is in force", func(context.Context) (bool, string) {
		err := try(plan.Apply, func(p *v1.Pod) { p.Spec.HostPID = true })
		return err != nil, "a pod with hostPID is made"
	})
	for _, mode := range []plan.Mode{plan.Apply, plan.Survey, plan.Remove} {
		if err := try(mode, func(*v1.Pod) {}); err != nil {
			t.Errorf("the pod that the controller makes: %s: %v", mode, err)
		}
	}
	// an overlay that changes the namespace takes the account along, and no policy
	moved := "system:serviceaccount:default:node-partition-rollout"
	_, err := c.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "moved"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: moved}},
	}, metav1.CreateOptions{})
	c.must(err)
	c.eventually("the account has all rights", func(ctx context.Context) (bool, string) {
		pod := nodepod.Of(settings, p, s, "want", start)
		pod.Namespace = "default"
		_, err := c.holder(moved).CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "in the namespace node-partition alone"), fmt.Sprint(err)
	})
	container := func(change func(*v1.Container)) func(*v1.Pod) {
		return func(p *v1.Pod) { change(&p.Spec.Containers[0]) }
	}
	arg := func(i int, text string) func(*v1.Pod) { return container(func(c *v1.Container) { c.Args[i] = text }) }
	exec := v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/partition-installer", "apply"}}}
	secret := &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Key: "k"}}
	for name, change := range map[string]func(*v1.Pod){
		"env from a Secret": container(func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "S", ValueFrom: secret}} }),
		"env":               container(func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "S", Value: "x"}} }),
		"envFrom": container(func(c *v1.Container) {
			c.EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "s"}}}}
		}),
		"a section of the process":              arg(3, "--section=/proc/self/environ"),
		"a section elsewhere":                   arg(3, "--section=/host/state/x"),
		"no hash":                               arg(4, "--section-sha256="),
		"an option of the monitor with a space": arg(6, "--monitor-args=--listen=a b"),
		"a word":                                arg(6, "--monitor-args=run"),
		"a quote":                               arg(6, `--monitor-args=--listen="`),
		"a line":                                arg(6, "--monitor-args=--a\n--b"),
		"another version":                       arg(2, "--version=v9"),
		"another stage":                         arg(0, "host"),
		"another node":                          arg(1, "--node=other"),
		"a variable as the node":                arg(1, "--node=$(S)"),
		"a trial from a variable":               arg(5, "--trial=$(S)"),
		"one more argument":                     container(func(c *v1.Container) { c.Args = append(c.Args, "--state=/x") }),
		"fewer arguments":                       container(func(c *v1.Container) { c.Args = c.Args[:1] }),
		"no arguments":                          container(func(c *v1.Container) { c.Args = nil }),
		"another program":                       container(func(c *v1.Container) { c.Command = []string{"/bin/sh"} }),
		"another image":                         container(func(c *v1.Container) { c.Image = "registry.example/other:v1" }),
		"the folder of state as payload": container(func(c *v1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "state", MountPath: "/payload/unit", SubPath: "node-partition.yaml"})
		}),
		"the folder of state as the program": container(func(c *v1.Container) { c.VolumeMounts[1].MountPath = "/partition-installer" }),
		"the bus for writing":                container(func(c *v1.Container) { c.VolumeMounts[0].ReadOnly = false }),
		"a program by postStart": container(func(c *v1.Container) {
			c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: exec.Exec}}
		}),
		"a program by a probe":     container(func(c *v1.Container) { c.LivenessProbe = &v1.Probe{ProbeHandler: exec} }),
		"a readiness probe":        container(func(c *v1.Container) { c.ReadinessProbe = &v1.Probe{ProbeHandler: exec} }),
		"a startup probe":          container(func(c *v1.Container) { c.StartupProbe = &v1.Probe{ProbeHandler: exec} }),
		"a port of the host":       container(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}} }),
		"a folder to work in":      container(func(c *v1.Container) { c.WorkingDir = "/host/state" }),
		"another termination file": container(func(c *v1.Container) { c.TerminationMessagePath = "/host/state/x" }),
		"privileged": container(func(c *v1.Container) {
			c.SecurityContext.Privileged = ptr.To(true)
			c.SecurityContext.AllowPrivilegeEscalation = nil
		}),
		"a capability":                       container(func(c *v1.Container) { c.SecurityContext.Capabilities.Add = []v1.Capability{"SYS_ADMIN"} }),
		"no dropped capabilities":            container(func(c *v1.Container) { c.SecurityContext.Capabilities = nil }),
		"a type of SELinux of the container": container(func(c *v1.Container) { c.SecurityContext.SELinuxOptions = &v1.SELinuxOptions{Type: "spc_t"} }),
		"seccomp of the container": container(func(c *v1.Container) {
			c.SecurityContext.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}
		}),
		"other resources":    container(func(c *v1.Container) { c.Resources = v1.ResourceRequirements{} }),
		"a terminal":         container(func(c *v1.Container) { c.TTY = true }),
		"one more container": func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "x", Image: image}) },
		"an init container":  func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Name: "x", Image: image}} },
		"one more volume":    func(p *v1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "x"}) },
		"a Secret as the section": func(p *v1.Pod) {
			p.Spec.Volumes[2].VolumeSource = v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}
		},
		"a ConfigMap as the section": func(p *v1.Pod) {
			p.Spec.Volumes[2].VolumeSource = v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "s"}}}
		},
		"another folder of the host": func(p *v1.Pod) { p.Spec.Volumes[1].HostPath.Path = "/" },
		"the host's processes":       func(p *v1.Pod) { p.Spec.HostPID = true },
		"the host's network":         func(p *v1.Pod) { p.Spec.HostNetwork = true },
		"the host's IPC":             func(p *v1.Pod) { p.Spec.HostIPC = true },
		"shared processes":           func(p *v1.Pod) { p.Spec.ShareProcessNamespace = ptr.To(true) },
		"a type of SELinux":          func(p *v1.Pod) { p.Spec.SecurityContext.SELinuxOptions = &v1.SELinuxOptions{Type: "spc_t"} },
		"no seccomp":                 func(p *v1.Pod) { p.Spec.SecurityContext.SeccompProfile = nil },
		"seccomp unconfined":         func(p *v1.Pod) { p.Spec.SecurityContext.SeccompProfile.Type = v1.SeccompProfileTypeUnconfined },
		"groups":                     func(p *v1.Pod) { p.Spec.SecurityContext.SupplementalGroups = []int64{0} },
		"another account":            func(p *v1.Pod) { p.Spec.ServiceAccountName = "node-partition-rollout" },
		"a token":                    func(p *v1.Pod) { p.Spec.AutomountServiceAccountToken = ptr.To(true) },
		"another priority":           func(p *v1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" },
		"a name of a node":           func(p *v1.Pod) { p.Spec.NodeName = "b" },
		"affinity to another node": func(p *v1.Pod) {
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0] = "b"
		},
		"no affinity":       func(p *v1.Pod) { p.Spec.Affinity = nil },
		"another scheduler": func(p *v1.Pod) { p.Spec.SchedulerName = "mine" },
		"a host name":       func(p *v1.Pod) { p.Spec.Hostname = "x" },
		"names of hosts":    func(p *v1.Pod) { p.Spec.HostAliases = []v1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"a"}}} },
		"a restart":         func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyAlways },
		"another namespace": func(p *v1.Pod) { p.Namespace = "kube-system" },
		"a finalizer":       func(p *v1.Pod) { p.Finalizers = []string{"example.org/x"} },
		"an owner": func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: "b"}}
		},
	} {
		if err := try(plan.Apply, change); err == nil {
			t.Errorf("%s: a pod is made", name)
		} else if name != "another namespace" && !strings.Contains(err.Error(), "node-partition-rollout-pods") {
			t.Errorf("%s: %v; want an answer of the policy", name, err)
		}
	}
}

// TestNodePolicy: the holder of the controller's token writes labels and annotations of this
// project on Nodes, the finalizer of a NodePartition, and nothing else of them.
func TestNodePolicy(t *testing.T) {
	c := newCluster(t)
	c.nodes("a")
	empty := []byte(`{"metadata":{"labels":{"empty":""},"annotations":{"empty":""}}}`)
	_, err := c.kube.CoreV1().Nodes().Patch(t.Context(), "a", types.MergePatchType, empty, metav1.PatchOptions{})
	c.must(err)
	c.partition()
	holder := c.holder(account)
	patch := func(path string, change map[string]any) error {
		text, err := json.Marshal(change)
		c.must(err)
		return holder.CoreV1().RESTClient().Patch("application/merge-patch+json").AbsPath(path).
			Param("dryRun", metav1.DryRunAll).Body(text).Do(t.Context()).Error()
	}
	metadata := func(field string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{field: value}}
	}
	const node, object = "/api/v1/nodes/a", "/apis/node-partition.io/v1alpha1/nodepartitions/general"
	c.eventually("the policies are in force", func(context.Context) (bool, string) {
		return patch(node, metadata("labels", map[string]any{"x": "y"})) != nil && patch(object, metadata("labels", map[string]any{"x": "y"})) != nil, "a label is written"
	})
	for _, of := range []struct {
		path    string
		change  map[string]any
		allowed bool
	}{
		{node, metadata("labels", map[string]any{"node-partition.io/state": "kept"}), true},
		{node, metadata("annotations", map[string]any{"node-partition.io/rollout": "{}"}), true},
		{node, metadata("labels", map[string]any{v1.LabelHostname: nil}), false},
		{node, metadata("labels", map[string]any{v1.LabelHostname: "b"}), false},
		{node, metadata("labels", map[string]any{"empty": nil}), false},
		{node, metadata("annotations", map[string]any{"empty": nil}), false},
		{node, metadata("labels", map[string]any{"node-partition.iox/state": "kept"}), false},
		{node, metadata("labels", nil), false},
		{node, metadata("annotations", map[string]any{"x": "y"}), false},
		{node, metadata("finalizers", []string{"example.org/x"}), false},
		{node, metadata("ownerReferences", []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}}), false},
		{node, map[string]any{"spec": map[string]any{"unschedulable": true}}, false},
		{node, map[string]any{"spec": map[string]any{"taints": []any{map[string]any{"key": "a", "effect": "NoExecute"}}}}, false},
		{node + "/status", map[string]any{"status": map[string]any{"conditions": nil}}, false},
		{object, metadata("finalizers", []string{"node-partition.io/nodes"}), true},
		{object + "/status", map[string]any{"status": map[string]any{"version": "v1"}}, true},
		{object, metadata("finalizers", []string{"example.org/x"}), false},
		{object, metadata("annotations", map[string]any{"x": "y"}), false},
		{object, map[string]any{"spec": map[string]any{"monitorArgs": []string{"--x"}}}, false},
		{object, map[string]any{"spec": map[string]any{"nodeSelector": map[string]any{"matchLabels": map[string]any{"x": "y"}}}}, false},
	} {
		if err := patch(of.path, of.change); (err == nil) != of.allowed {
			t.Errorf("%s %v: %v", of.path, of.change, err)
		}
	}
	for _, path := range []string{
		"/api/v1/namespaces/kube-system/secrets", "/api/v1/namespaces/" + namespace + "/secrets", "/api/v1/namespaces/" + namespace + "/configmaps",
	} {
		if err := holder.CoreV1().RESTClient().Get().AbsPath(path).Do(t.Context()).Error(); err == nil {
			t.Errorf("%s can be read", path)
		}
	}
}
