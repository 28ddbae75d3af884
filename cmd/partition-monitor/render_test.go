package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/tests/fakenode"
)

// typed is the configuration of a node with two workload types and the system partition.
const typed = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
systemPartition: {namespaces: [kube-system], cpuset: "0"}
workloadPartitions:
  management: {partition: system, allowedNamespaces: [operators]}
  telemetry: {cpuset: "1", namespaces: [telemetry]}
`

// TestRenderFiles: the files of OpenShift have the types of the configuration.
func TestRenderFiles(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, typed)
	for _, test := range []struct {
		args string
		want []string
	}{
		{"pinning", []string{`{"management":{"cpuset":"0"},"telemetry":{"cpuset":"1"}}` + "\n"}},
		{"pinning --type telemetry", []string{`{"telemetry":{"cpuset":"1"}}` + "\n"}},
		{"--type=telemetry --type management pinning", []string{`{"management":{"cpuset":"0"},"telemetry":{"cpuset":"1"}}` + "\n"}},
		{"crio --type=management", []string{
			"\n[crio.runtime.workloads.management]\n", `activation_annotation = "target.workload.openshift.io/management"` + "\n",
			`annotation_prefix = "resources.workload.openshift.io"` + "\n", `resources = { "cpushares" = 0, "cpuset" = "0" }` + "\n",
		}},
		{"machineconfig --type telemetry", []string{
			"machineconfiguration.openshift.io/role: master\n", "name: 02-master-workload-partitioning\n", "version: 3.2.0\n", "mode: 420\n",
			"path: /etc/crio/crio.conf.d/01-workload-partitioning\n", "path: /etc/kubernetes/openshift-workload-pinning\n",
			"source: data:text/plain;charset=utf-8;base64,eyJ0ZWxlbWV0cnkiOnsiY3B1c2V0IjoiMSJ9fQo=\n",
		}},
		{"machineconfig --role worker", []string{"name: 02-worker-workload-partitioning\n"}},
		{"butane --type telemetry", []string{
			"variant: fcos\nversion: 1.3.0\n", "mode: 0600\n", "        inline: |\n          {\"telemetry\":{\"cpuset\":\"1\"}}\n",
		}},
	} {
		args := append([]string{"render"}, strings.Fields(test.args)...)
		status, stdout, stderr := commandOn(t, n.Host(), args...)
		if status != exitOK || stderr != "" {
			t.Errorf("%s: status %d, %q", test.args, status, stderr)
		}
		for _, want := range test.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q is not in\n%s", test.args, want, stdout)
			}
		}
		if len(test.want) == 1 && strings.HasSuffix(test.want[0], "}\n") && stdout != test.want[0] {
			t.Errorf("%s: %q; want %q", test.args, stdout, test.want[0])
		}
	}
}

// TestRenderRefused: what cannot be rendered is an error with what to change.
func TestRenderRefused(t *testing.T) {
	t.Parallel()
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(pod, []byte("apiVersion: v1\nkind: Service\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		configuration, args, want string
		status                    int
	}{
		{typed, "", "render: want pod, pinning", exitUsage},
		{typed, "policy", "render policy: want pod, pinning", exitUsage},
		{typed, "crio FILE", `render crio: unexpected argument "FILE"`, exitUsage},
		{typed, "pod a b", `render pod: unexpected argument "b"`, exitUsage},
		{typed, "crio --role worker", "render crio: does not take --role", exitUsage},
		{typed, "machineconfig --role Worker", "--role=Worker: want a name", exitUsage},
		{typed, "pod --kubeconfig /x", "render pod: does not take --kubeconfig", exitUsage},
		{typed, "admission --kubeconfig=", "--kubeconfig: want a file", exitUsage},
		{typed, "admission --require-monitor --validating-only", "--require-monitor: changes pods, so not with --validating-only", exitUsage},
		{typed, "admission --api-version v2", "--api-version=v2: want v1 or v1beta1", exitUsage},
		{typed, "admission --kubeconfig /none", "kubeconfig /none: ", exitProblem},
		{typed, "admission --selector pool=a", "--selector: needs --kubeconfig", exitUsage},
		{typed, "admission --kubeconfig /none --selector a=b=c", "--selector=a=b=c: ", exitUsage},
		{typed, "admission --config /none", "/none: no such file", exitProblem},
		{typed, "pinning --config /none", "render pinning: does not take --config", exitUsage},
		{typed, "admission --type batch", "--type=batch: workloadPartitions has no such type", exitProblem},
		{fakenode.Valid("kube-system"), "admission", "the configuration has no workload type", exitProblem},
		{fakenode.Configuration(""), "admission --require-monitor", "the configuration has no workload type", exitProblem},
		{fakenode.Valid("kube-system"), "admission --type podman", `--type=podman: contains "pod"`, exitProblem},
		{typed, "pod --type a --type b", "--type: want one type for a pod", exitUsage},
		{typed, "pinning --type batch", "--type=batch: workloadPartitions has no such type; want one of management, telemetry", exitProblem},
		{fakenode.Valid("kube-system"), "pinning", "the configuration has no workload type: want a section workloadPartitions", exitProblem},
		{fakenode.Broken, "crio", "memoryLimit", exitProblem},
		{typed, "pod " + pod, "pod.yaml: apiVersion v1, kind Service: want v1 and Pod", exitProblem},
		{typed, "pod /none", "/none: no such file", exitProblem},
	} {
		args := append([]string{"render"}, strings.Fields(test.args)...)
		status, stdout, stderr := commandOn(t, fakenode.New(t, test.configuration).Host(), args...)
		if status != test.status || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: status %d, %q, %q; want %d and %q", test.args, status, stdout, stderr, test.status, test.want)
		}
	}
}

// TestRenderPod: a manifest comes from standard input or a file, and its warnings go to standard
// error.
func TestRenderPod(t *testing.T) {
	t.Parallel()
	const manifest = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    resources: {requests: {cpu: 1, memory: 1Mi}}\n"
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := commandOn(t, host.This(), "render", "pod", file)
	if status != exitOK || stdout != manifest || !strings.Contains(stderr, "warning: "+file+": the pod asks for no workload type") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	var out, errs bytes.Buffer
	app := newApp(host.This(), &out, &errs)
	app.Reader = strings.NewReader(manifest)
	err := runApp(t, app, "render", "--type=management", "pod")
	if err != nil || errs.Len() > 0 || !strings.Contains(out.String(), "management.workload.openshift.io/cores: \"1000\"") {
		t.Errorf("%v, %q, %q", err, &out, &errs)
	}
}

// TestRenderAdmission: the policies have the types of the configuration, with the namespaces that
// have a right by it. Without a configuration they have the named types.
func TestRenderAdmission(t *testing.T) {
	t.Parallel()
	pools := []string{filepath.Join(t.TempDir(), "a.yaml"), filepath.Join(t.TempDir(), "b.yaml")}
	for i, section := range []string{`{a: {cpuset: "0", allowedNamespaces: [one]}}`, `{a: {cpuset: "1", namespaces: [two]}, b: {advertise: false, namespaceAnnotation: true}}`} {
		if err := os.WriteFile(pools[i], []byte(fakenode.Configuration("workloadPartitions: "+section+"\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		configuration, args string
		want, without       []string
	}{
		{typed, "admission", []string{"{'management': ['kube-system', 'operators'], 'telemetry': ['telemetry']}", "io/v1\nkind: MutatingAdmissionPolicy\n"}, []string{"required"}},
		{typed, "admission --type telemetry --api-version=v1beta1", []string{
			"{'telemetry': ['telemetry']}", "io/v1beta1\nkind: MutatingAdmissionPolicy\n", "io/v1\nkind: ValidatingAdmissionPolicy\n",
		}, nil},
		{typed, "admission --validating-only", []string{"kind: ValidatingAdmissionPolicy\n"}, []string{"Mutating"}},
		{strings.Replace(typed, "[operators]}", "[operators], advertise: false}", 1), "admission --type management", []string{
			`node-partition.io/workload-types: '[{"name":"management","namespaces":["kube-system","operators"],"unconverted":true}]'`,
		}, nil},
		{typed, "admission --config " + pools[0] + " --config " + pools[1], []string{
			"{'a': ['one', 'two'], 'b': ['']}", `{"name":"a","namespaces":["one","two"]},{"name":"b","byNamespace":true,"unconverted":true}`,
		}, []string{"telemetry"}},
		{typed, "admission --require-monitor", []string{"values: ['kube-system', 'telemetry']}", "kind: ValidatingAdmissionPolicy\n"}, nil},
		{fakenode.Valid("kube-system"), "admission --require-monitor", []string{"values: ['kube-system']}"}, []string{"workloads"}},
		{fakenode.Broken, "admission --remove", []string{
			"kind: MutatingAdmissionPolicy\nmetadata: {name: node-partition-resource}\n",
			"kind: MutatingAdmissionPolicy\nmetadata: {name: node-partition-required}\n",
		}, []string{"spec:"}},
		{fakenode.Broken, "admission --remove --validating-only", []string{"kind: ValidatingAdmissionPolicyBinding\n"}, []string{"Mutating"}},
		{fakenode.Valid("kube-system"), "admission --type b --type=a", []string{"{'a': [''], 'b': ['']}"}, nil},
	} {
		status, stdout, stderr := commandOn(t, fakenode.New(t, test.configuration).Host(), append([]string{"render"}, strings.Fields(test.args)...)...)
		if status != exitOK || stderr != "" {
			t.Errorf("%s: status %d, %q", test.args, status, stderr)
		}
		for _, want := range test.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q is not in\n%s", test.args, want, stdout)
			}
		}
		for _, without := range test.without {
			if strings.Contains(stdout, without) {
				t.Errorf("%s: %q is in\n%s", test.args, without, stdout)
			}
		}
	}
}
