package charttest

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
)

// closed reports what a container or its pod may do that no container of this chart needs.
func closed(pod v1.PodSpec, c v1.Container) []string {
	var open []string
	s := c.SecurityContext
	for what, is := range map[string]bool{
		"a namespace of the host":      pod.HostPID || pod.HostNetwork || pod.HostIPC,
		"processes of each other":      pod.ShareProcessNamespace != nil && *pod.ShareProcessNamespace,
		"any system call":              pod.SecurityContext.SeccompProfile.Type != v1.SeccompProfileTypeRuntimeDefault,
		"privileges":                   s.Privileged == nil || *s.Privileged,
		"more privileges by a program": s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation,
		"a root that is written":       s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem,
		"capabilities":                 !slices.Equal(s.Capabilities.Drop, []v1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0,
		"another user":                 s.RunAsUser != nil,
		"memory without a limit":       c.Resources.Limits.Memory().IsZero(),
		"a port":                       len(c.Ports) > 0,
		"the addresses of services":    pod.EnableServiceLinks == nil || *pod.EnableServiceLinks,
	} {
		if is {
			open = append(open, what)
		}
	}
	slices.Sort(open)
	return open
}

// TestNodePods: the pods on the nodes have two folders of the host, and no privilege.
func TestNodePods(t *testing.T) {
	t.Parallel()
	for values, image := range map[string]string{
		least: "registry.example/node-partition-installer:v0.0.0",
		full:  "registry.example:5000/infra/node-partition-installer@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
	} {
		all := decode(t, values)
		for key, stages := range map[string][]string{
			"job.yaml": {"preflight", "install", "apply", "verify", "keep"}, "uninstall.yaml": {"uninstall"},
		} {
			job := all.node[key]
			pod := job.Spec.Template.Spec
			if *job.Spec.BackoffLimit != 0 || pod.RestartPolicy != v1.RestartPolicyNever {
				t.Errorf("%s: a node that failed is tried again", key)
			}
			if pod.ServiceAccountName != "node-partition-node" || *pod.AutomountServiceAccountToken {
				t.Errorf("%s: the pods have the token of %s", key, pod.ServiceAccountName)
			}
			var paths, others []string
			for _, v := range pod.Volumes {
				switch {
				case v.HostPath != nil:
					paths = append(paths, v.HostPath.Path)
				case v.ConfigMap == nil:
					others = append(others, v.Name)
				}
			}
			if !slices.Equal(paths, []string{"/run/dbus", "/var/lib/node-partition/installer"}) || len(others) > 0 {
				t.Errorf("%s: the pods mount %q of the host, and %q", key, paths, others)
			}
			containers := slices.Concat(pod.InitContainers, pod.Containers)
			ran := make([]string, 0, len(containers))
			for _, c := range containers {
				ran = append(ran, c.Args[0])
				if open := closed(pod, c); len(open) > 0 {
					t.Errorf("%s: %s may have %q", key, c.Name, open)
				}
				if c.Image != image || !slices.Equal(c.Command, []string{"/partition-installer"}) || c.Name != c.Args[0] {
					t.Errorf("%s: %s runs %q %q of %s, want %s", key, c.Name, c.Command, c.Args, c.Image, image)
				}
				writable := 0
				for _, m := range c.VolumeMounts {
					if !m.ReadOnly {
						writable++
					}
				}
				if writable != 1 {
					t.Errorf("%s: %s writes to %d mounts, want its folder alone", key, c.Name, writable)
				}
			}
			if !slices.Equal(ran, stages) {
				t.Errorf("%s runs %q, want %q", key, ran, stages)
			}
		}
	}
}

// TestNodeArguments: the stages get the values.
func TestNodeArguments(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		least: "preflight --node=$(NODE_PARTITION_NODE) --roll=$(NODE_PARTITION_ROLL) --version=v0.0.0 --state=/host/state --section=/section/section.yaml --trial=10m",
		full: "preflight --node=$(NODE_PARTITION_NODE) --roll=$(NODE_PARTITION_ROLL) --version=v0.0.0 --state=/host/state --section=/section/section.yaml --trial=20m " +
			"--nri=containerd --monitor-args=--listen=0.0.0.0:9948 --node-status",
	} {
		all := decode(t, values)
		if got := strings.Join(all.node["job.yaml"].Spec.Template.Spec.InitContainers[0].Args, " "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		want = "uninstall --node=$(NODE_PARTITION_NODE) --roll=$(NODE_PARTITION_ROLL) --version=v0.0.0 --state=/host/state"
		if got := strings.Join(all.node["uninstall.yaml"].Spec.Template.Spec.Containers[0].Args, " "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestDispatcherPods: the dispatcher has nothing of a host, and is started again after everything
// but an answer.
func TestDispatcherPods(t *testing.T) {
	t.Parallel()
	all := decode(t, full)
	specs := map[string]batchv1.JobSpec{"add": all.cronJobs[0].Spec.JobTemplate.Spec}
	for name, job := range all.jobs {
		specs[name] = job.Spec
	}
	for name, spec := range specs {
		pod := spec.Template.Spec
		if pod.ServiceAccountName != "node-partition-dispatcher" || !*pod.SecurityContext.RunAsNonRoot {
			t.Errorf("%s: runs as root, or as %s", name, pod.ServiceAccountName)
		}
		for _, v := range pod.Volumes {
			if v.ConfigMap == nil {
				t.Errorf("%s: mounts %s", name, v.Name)
			}
		}
		for _, c := range pod.Containers {
			if open := closed(pod, c); len(open) > 0 {
				t.Errorf("%s: %s may have %q", name, c.Name, open)
			}
		}
		rules := spec.PodFailurePolicy.Rules
		if len(rules) != 2 || !slices.Equal(rules[0].OnExitCodes.Values, []int32{1, 2, 3}) || *spec.BackoffLimit == 0 {
			t.Errorf("%s: is not started again, or although it has answered: %+v", name, rules)
		}
	}
}
