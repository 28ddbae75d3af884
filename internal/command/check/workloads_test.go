package check

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/fakenode"
)

// lines returns findings as lines, with their changes.
func lines(found []state.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s %s | %s\n", f.Grade, f.Found, f.Change)
	}
	return b.String()
}

// expectLines compares findings with the parts of one line for each.
func expectLines(t *testing.T, name string, found []state.Finding, want [][]string) {
	t.Helper()
	got := strings.Split(strings.TrimSuffix(lines(found), "\n"), "\n")
	if len(found) != len(want) {
		t.Errorf("%s: %d findings; want %d:\n%s", name, len(found), len(want), lines(found))
		return
	}
	for i, parts := range want {
		for _, part := range parts {
			if !strings.Contains(got[i], part) {
				t.Errorf("%s: want %q in\n%s", name, part, got[i])
			}
		}
	}
}

func typeOf(name string) workloadType {
	return workloadType{Workload: partition.Workload{Type: name, Partition: partition.Name(name), ByNamespace: true, Advertise: true}}
}

const coresA, coresB = "a.workload.openshift.io/cores", "b.workload.openshift.io/cores"

// TestResourceFindings: a Node without the resource of a type is an error.
func TestResourceFindings(t *testing.T) {
	t.Parallel()
	off := typeOf("c")
	off.Advertise = false
	types := []workloadType{typeOf("a"), typeOf("b"), off}
	for name, test := range map[string]struct {
		facts clusterFacts
		want  [][]string
	}{
		"no type":                {clusterFacts{types: []workloadType{off}}, [][]string{{"ok ", "no workload type has a resource"}}},
		"it has them":            {clusterFacts{types: types, node: "me"}, [][]string{{"ok the Node me has " + coresA + ", " + coresB}}},
		"it lacks one":           {clusterFacts{types: types, node: "me", lacking: []string{coresB}}, [][]string{{"error " + coresB + ": the Node me has none", "systemctl status partition-monitor.service"}}},
		"it lacks both":          {clusterFacts{types: types, node: "me", lacking: []string{coresA, coresB}}, [][]string{{"error " + coresA + ", " + coresB + ": the Node me has none"}}},
		"no API server":          {clusterFacts{types: types, unasked: errors.New("no kubeconfig")}, [][]string{{"warning no kubeconfig: whether the Node has " + coresA, "--kubeconfig"}}},
		"it does not answer":     {clusterFacts{types: types, node: "me", unknown: fmt.Errorf("get: %w", kubeapi.ErrUnreachable)}, [][]string{{"warning whether the Node has ", "get: "}}},
		"an error that is a no":  {clusterFacts{types: types, node: "me", mayPatch: kubeapi.ErrForbidden}, [][]string{{"ok "}}},
		"types without resource": {clusterFacts{types: []workloadType{off}, unasked: errors.New("no kubeconfig")}, [][]string{{"ok no workload type has"}}},
	} {
		expectLines(t, name, resourceFindings(&test.facts), test.want)
	}
}

// TestRightsFindings: a missing right is an error with the rule that gives it.
func TestRightsFindings(t *testing.T) {
	t.Parallel()
	types := []workloadType{typeOf("a")}
	none := typeOf("a")
	none.Advertise = false
	forbidden := fmt.Errorf("said no: %w", kubeapi.ErrForbidden)
	unreachable := fmt.Errorf("silent: %w", kubeapi.ErrUnreachable)
	const status = `add {apiGroups: [""], resources: [nodes/status], verbs: [patch]} to the rules`
	for name, test := range map[string]struct {
		facts clusterFacts
		want  [][]string
	}{
		"none is needed":    {clusterFacts{types: []workloadType{none}, mayPatch: forbidden}, [][]string{{"ok no workload type needs a right"}}},
		"granted":           {clusterFacts{types: types, server: "S", kubeconfig: "K"}, [][]string{{"ok S lets the monitor", "K"}}},
		"not the status":    {clusterFacts{types: types, server: "S", kubeconfig: "K", mayPatch: forbidden}, [][]string{{"error the user of K may not patch nodes/status at S", coresA, status}}},
		"no Node":           {clusterFacts{types: types, mayPatch: fmt.Errorf("no node: %w", kubeapi.ErrGone)}, [][]string{{"warning no node: "}}},
		"said already":      {clusterFacts{types: types, unasked: errors.New("no kubeconfig")}, nil},
		"unreachable, said": {clusterFacts{types: types, mayPatch: unreachable}, nil},
	} {
		expectLines(t, name, rightsFindings(&test.facts), test.want)
	}
}

// TestStale: the policies of the cluster are compared with the configuration. More types and
// namespaces there are of other nodes.
func TestStale(t *testing.T) {
	t.Parallel()
	own, plain := typeOf("a"), typeOf("b")
	own.mayAsk, plain.Advertise, plain.ByNamespace = []string{"ops", "logging"}, false, false
	for name, test := range map[string]struct {
		rendered string
		audited  bool
		want     [][]string
	}{
		"the same":          {`[{"name":"a","namespaces":["logging","ops"],"byNamespace":true},{"name":"b","unconverted":true}]`, false, nil},
		"more":              {`[{"name":"a","namespaces":["logging","ops","x"],"byNamespace":true},{"name":"b"},{"name":"c"}]`, false, nil},
		"a type is missing": {`[{"name":"a","namespaces":["logging","ops"],"byNamespace":true}]`, false, [][]string{{"warning ", "is not of this configuration: it does not have the type b", "render admission"}}},
		"a namespace is missing": {`[{"name":"a","namespaces":["ops"],"byNamespace":true},{"name":"b"}]`, false, [][]string{
			{"warning ", "it does not let pods of logging ask for a"},
		}},
		"no annotation counts": {`[{"name":"a","namespaces":["logging","ops"]},{"name":"b"}]`, false, [][]string{{"no annotation of a namespace allows a there"}}},
		"no conversion": {`[{"name":"a","namespaces":["logging","ops"],"byNamespace":true,"unconverted":true},{"name":"b"}]`, false, [][]string{
			{"it does not convert pods of a"},
		}},
		"another's": {``, false, [][]string{{"warning ", "does not say for which types it was rendered"}}},
		"audited":   {`[{"name":"a","namespaces":["logging","ops"],"byNamespace":true},{"name":"b"}]`, true, [][]string{{"warning ", "has no binding that denies", "--remove"}}},
	} {
		f := clusterFacts{types: []workloadType{own, plain}, policy: &kubeapi.Policy{
			Annotations: map[string]string{admission.TypesKey: test.rendered}, Denies: !test.audited,
		}}
		expectLines(t, name, f.stale(), test.want)
	}
	if found := (&clusterFacts{types: []workloadType{own}}).stale(); found != nil {
		t.Errorf("without a known policy: %v", found)
	}
	if found := (&clusterFacts{types: []workloadType{plain}, unguarded: true}).stale(); found != nil {
		t.Errorf("without a policy, and nothing that needs one: %v", found)
	}
	open := clusterFacts{types: []workloadType{own, plain}, unguarded: true}
	expectLines(t, "without a policy", open.stale(), [][]string{{"warning there is no policy node-partition-workloads", " gets a that asks", "render admission"}})
}

const (
	systemSection = "systemPartition: {memoryLimit: 64Mi, cpuset: \"1\", namespaces: [kube-system, monitoring]}\n"
	typesSection  = "workloadPartitions:\n  a: {partition: system, allowedNamespaces: [ops]}\n"
)

// typed returns a node with a workload type, whose Node is node-1 of its cluster.
func typed(t *testing.T) *fakenode.Node {
	t.Helper()
	n := fakenode.Whole(t)
	n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(systemSection+typesSection))
	n.Write(fakenode.SystemCgroup+"/cpuset.cpus", "1")
	n.RunKubelet("--hostname-override=" + fakeapi.Node)
	return n
}

const ownNode = "GET /api/v1/nodes/" + fakeapi.Node

// TestCheckWorkloadsPolicy: who may read the policies sees whether they are of this configuration.
func TestCheckWorkloadsPolicy(t *testing.T) {
	t.Parallel()
	n := typed(t)
	const policies = "GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/" + admission.PolicyName
	n.Cluster.Objects = map[string]string{ownNode: `{"status":{"allocatable":{"` + coresA + `":"4k"}}}`}
	n.Cluster.Answers[policies] = http.StatusNotFound
	if stdout, _ := textOf(t, n, nil); strings.Contains(stdout, "the policy ") {
		t.Errorf("a finding about policies, which the cluster does not have, in\n%s", stdout)
	}
	delete(n.Cluster.Answers, policies)
	n.Cluster.Objects[policies] = `{"metadata":{"annotations":{"` + admission.TypesKey + `":"[]"}}}`
	const stale = "warning  workload-resource: the policy node-partition-workloads is not of this configuration: it does not have the type a"
	expect(t, n, passes, []string{stale})
	without := strings.Replace(systemSection+typesSection, "ops]", "ops], advertise: false", 1)
	n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(without))
	expect(t, n, passes, []string{"ok       workload-resource: no workload type has a resource on the Node", stale})
}

// TestCheckWorkloadsKubelet: a kubelet's user may look at its own Node, and not at policies.
func TestCheckWorkloadsKubelet(t *testing.T) {
	t.Parallel()
	n := typed(t)
	n.Cluster.Answers["GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/"+admission.PolicyName] = http.StatusForbidden
	n.Cluster.Objects = map[string]string{ownNode: `{"status":{"allocatable":{"` + coresA + `":"4k"}}}`}
	expect(t, n, passes, []string{"ok       workload-resource: the Node " + fakeapi.Node + " has " + coresA, "ok       workload-rights: "})
	n.Cluster.Objects[ownNode] = `{"status":{"allocatable":{"cpu":"4"}}}`
	expect(t, n, fails, []string{"error    workload-resource: " + coresA + ": the Node " + fakeapi.Node + " has none of it"})
	n.Cluster.Objects[ownNode] = `{"status":{"allocatable":{"` + coresA + `":"4k"}}}`
	n.Cluster.Answers["PATCH /api/v1/nodes/"+fakeapi.Node+"/status"] = http.StatusForbidden
	expect(t, n, fails, []string{"error    workload-rights: the user of /var/lib/kubelet/kubeconfig may not patch nodes/status"})
}

// TestCheckWorkloadsWithoutAPI: a node without an API server is not an error.
func TestCheckWorkloadsWithoutAPI(t *testing.T) {
	t.Parallel()
	n := typed(t)
	expect(t, n, passes, []string{"warning  workload-resource: the API server is not queried (--kubeconfig): whether the Node has " + coresA},
		func(o *node.Options, _ *fakenode.Node) { o.Eviction.Kubeconfig = node.KubeconfigNone })
	n.Cluster.Close()
	stdout, _ := textOf(t, n, nil)
	if strings.Count(stdout, "cannot be reached") != 2 || !strings.Contains(stdout, "warning  eviction-api, events: ") || !strings.Contains(stdout, "warning  workload-resource: whether the Node has "+coresA+" is not known: API server ") {
		t.Errorf("want the API server by eviction-api and events in a line, and by workload-resource, in\n%s", stdout)
	}
}

// TestCheckWorkloadsForeign: the cluster is not asked about another node, and its files are read.
func TestCheckWorkloadsForeign(t *testing.T) {
	t.Parallel()
	n := typed(t)
	n.Write("/etc/kubernetes/openshift-workload-pinning", `{"a": {"cpuset": "0"}}`)
	stdout, _ := textOf(t, n, nil, func(o *node.Options, _ *fakenode.Node) { o.Node.Foreign = true })
	for _, part := range []string{
		`warning  configuration: /etc/kubernetes/openshift-workload-pinning: a.cpuset: "0": /etc/kubernetes/node-partition.yaml: systemPartition.cpuset is "1", and counts`,
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
	for _, name := range []string{"workload-resource", "workload-rights"} {
		if strings.Contains(stdout, name) {
			t.Errorf("%s in\n%s", name, stdout)
		}
	}
	if came := n.Cluster.Came(); len(came) > 0 {
		t.Errorf("the API server was asked %q", came)
	}
}

// TestCheckPartitionWithoutNamespaces: the right to evict is asked for in a namespace of another
// partition, or in kube-system.
func TestCheckPartitionWithoutNamespaces(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("workloadPartitions: {a: {allowedNamespaces: [ops]}}\n"))
	c := fakeapi.New(t, httptest.NewServer)
	c.Kubeconfig(t, n.Root+"/var/lib/kubelet/kubeconfig")
	expect(t, n, fails, []string{"ok       eviction-api: "})
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration("workloadPartitions: {a: {allowedNamespaces: [ops]}, b: {namespaces: [jobs]}}\n"))
	c.Came()
	expect(t, n, fails, []string{"ok       eviction-api: "})
	if came := c.Came(); !slices.ContainsFunc(came, func(line string) bool { return strings.Contains(line, "/namespaces/jobs/pods/") }) {
		t.Errorf("%q", came)
	}
}
