// Package charttest tests the chart with Helm's libraries: Helm itself is neither needed nor run.
package charttest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// chartDir is the folder of the chart.
const chartDir = ".."

// least holds the values that a release has to have.
const least = `
image: {repository: registry.example/node-partition-installer}
section: {systemPartition: {namespaces: [kube-system], memoryLimit: 2Gi}}
`

// full sets every value to another one than the default.
const full = `
image:
  repository: registry.example:5000/infra/node-partition-installer
  tag: v9
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  pullPolicy: Always
imagePullSecrets: [{name: registry}]
sectionFile: |
  apiVersion: kubelet.config.k8s.io/v1beta1
  kind: KubeletConfiguration
  # "kept" <byte> for byte; ü
  systemPartition: {namespaces: [kube-system, monitoring], memoryLimit: 12%}
monitorArgs: [--listen=0.0.0.0:9948, --node-status]
roll:
  selector: pool=general
  nodes: 10%
  maxFailures: 2
  pools: [canary=true, "zone in (a, b)"]
  controlPlane: last
  pause: 0s
  trial: 20m
  nri: containerd
  deadline: 1h
laterNodes: {enabled: true, schedule: "*/5 * * * *"}
nodePods:
  tolerations: [{key: dedicated, operator: Equal, value: infra, effect: NoSchedule}]
  priorityClassName: system-node-critical
  appArmorProfile: RuntimeDefault
  seLinuxType: spc_t
  resources: {requests: {cpu: 20m}, limits: {memory: 300Mi}}
dispatcher:
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{operator: Exists}]
  priorityClassName: system-cluster-critical
  resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}
`

// parse returns values of YAML.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// release renders the chart as "helm install" with these values does: defaults, the schema, the
// templates. It returns the text of each template that renders something.
func release(t *testing.T, values string, revision int) (map[string]string, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	options := chartutil.ReleaseOptions{
		Name: "fleet", Namespace: "node-partition", Revision: revision, IsInstall: revision == 1, IsUpgrade: revision > 1,
	}
	all, err := chartutil.ToRenderValues(chart, parse(t, values), options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(rendered, func(name, text string) bool {
		return strings.HasSuffix(name, ".tpl") || strings.TrimSpace(text) == ""
	})
	return rendered, nil
}

// manifests returns the documents of a release, of all templates in the order of their names.
func manifests(t *testing.T, values string, revision int) []string {
	t.Helper()
	rendered, err := release(t, values, revision)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		all = append(all, strings.Split(rendered[name], "\n---\n")...)
	}
	return all
}

// objects holds a release, decoded by kind.
type objects struct {
	configMaps      map[string]v1.ConfigMap
	serviceAccounts map[string]v1.ServiceAccount
	clusterRoles    []rbacv1.ClusterRole
	roles           []rbacv1.Role
	bindings        []rbacv1.RoleBinding
	clusterBindings []rbacv1.ClusterRoleBinding
	policies        map[string]admissionv1.ValidatingAdmissionPolicy
	policyBindings  []admissionv1.ValidatingAdmissionPolicyBinding
	jobs            map[string]batchv1.Job
	cronJobs        []batchv1.CronJob
	// node holds the Jobs of a node that the dispatcher reads from the ConfigMap, by their keys.
	node map[string]batchv1.Job
}

// strict decodes a manifest. A field that the type does not have is an error.
func strict[T any](t *testing.T, text string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return object
}

// decode decodes each manifest of a release strictly.
func decode(t *testing.T, values string) objects {
	t.Helper()
	all := objects{
		configMaps: map[string]v1.ConfigMap{}, serviceAccounts: map[string]v1.ServiceAccount{},
		policies: map[string]admissionv1.ValidatingAdmissionPolicy{}, jobs: map[string]batchv1.Job{}, node: map[string]batchv1.Job{},
	}
	for _, text := range manifests(t, values, 1) {
		var kind struct{ Kind, APIVersion string }
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 ConfigMap":
			c := strict[v1.ConfigMap](t, text)
			all.configMaps[c.Name] = c
		case "v1 ServiceAccount":
			a := strict[v1.ServiceAccount](t, text)
			all.serviceAccounts[a.Name] = a
		case "rbac.authorization.k8s.io/v1 ClusterRole":
			all.clusterRoles = append(all.clusterRoles, strict[rbacv1.ClusterRole](t, text))
		case "rbac.authorization.k8s.io/v1 Role":
			all.roles = append(all.roles, strict[rbacv1.Role](t, text))
		case "rbac.authorization.k8s.io/v1 RoleBinding":
			all.bindings = append(all.bindings, strict[rbacv1.RoleBinding](t, text))
		case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
			all.clusterBindings = append(all.clusterBindings, strict[rbacv1.ClusterRoleBinding](t, text))
		case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":
			p := strict[admissionv1.ValidatingAdmissionPolicy](t, text)
			all.policies[p.Name] = p
		case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding":
			all.policyBindings = append(all.policyBindings, strict[admissionv1.ValidatingAdmissionPolicyBinding](t, text))
		case "batch/v1 Job":
			j := strict[batchv1.Job](t, text)
			all.jobs[j.Name] = j
		case "batch/v1 CronJob":
			all.cronJobs = append(all.cronJobs, strict[batchv1.CronJob](t, text))
		default:
			t.Errorf("a manifest is of a kind that no test knows: %s %s", kind.APIVersion, kind.Kind)
		}
	}
	for _, key := range []string{"job.yaml", "uninstall.yaml"} {
		all.node[key] = strict[batchv1.Job](t, all.configMaps["node-partition"].Data[key])
	}
	return all
}
