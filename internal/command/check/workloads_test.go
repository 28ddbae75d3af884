package check

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"

	"nodepartition/internal/admission/policy"
	"nodepartition/internal/crioconfig"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/membership"
	"nodepartition/internal/node"
	"nodepartition/internal/node/options"
	"nodepartition/internal/unitname"
	"nodepartition/internal/workload"
	"nodepartition/tests/fakeapi"
	"nodepartition/tests/fakenode"
)

// lines returns findings as lines, with their changes.
func lines(found []Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s %s | %s\n", f.Grade, f.Found, f.Change)
	}
	return b.String()
}

// expectLines compares findings with the parts of one line for each.
func expectLines(t *testing.T, name string, found []Finding, want [][]string) {
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

func typeOf(name string, allowed ...string) workloadType {
	return workloadType{Workload: membership.Workload{Type: name, Partition: unitname.PartitionName(name), Allowed: allowed, ByNamespace: true, Advertise: true}}
}

const coresA, coresB = "a.workload.openshift.io/cores", "b.workload.openshift.io/cores"

// TestResourceFindings: this node is an error, another is a warning, and what several nodes lack
// together is one line.
func TestResourceFindings(t *testing.T) {
	t.Parallel()
	off := typeOf("c")
	off.Advertise = false
	types := []workloadType{typeOf("a"), typeOf("b"), off}
	many := make([]string, 0, 12)
	for i := range 12 {
		many = append(many, fmt.Sprintf("n%02d", i))
	}
	for name, test := range map[string]struct {
		facts clusterFacts
		want  [][]string
	}{
		"no type":                {clusterFacts{types: []workloadType{off}}, [][]string{{"ok ", "no workload type has a resource"}}},
		"all have it":            {clusterFacts{types: types, node: "me", all: true, lacking: map[string][]string{}}, [][]string{{"ok ", "each Node of the cluster has " + coresA + ", " + coresB}}},
		"this one has it":        {clusterFacts{types: types, node: "me", lacking: map[string][]string{}, stopped: errors.New("may not list")}, [][]string{{"ok the Node me has "}, {"ok other nodes, LimitRanges and quotas are not checked: may not list", "--kubeconfig"}}},
		"this one lacks one":     {clusterFacts{types: types, node: "me", all: true, lacking: map[string][]string{coresB: {"me"}}}, [][]string{{"error " + coresB + ": the Node me has none", "systemctl status partition-monitor.service"}}},
		"this one lacks both":    {clusterFacts{types: types, node: "me", all: true, lacking: map[string][]string{coresA: {"me"}, coresB: {"me"}}}, [][]string{{"error " + coresA + ", " + coresB + ": the Node me has none"}}},
		"others lack both":       {clusterFacts{types: types, node: "me", all: true, lacking: map[string][]string{coresA: {"x", "y"}, coresB: {"x", "y"}}}, [][]string{{"ok " + coresA + ", " + coresB + ": not advertised on each of 2 nodes: x, y, where"}}},
		"others have lost both":  {clusterFacts{types: types, node: "me", all: true, lacking: map[string][]string{coresA: {"x", "y"}, coresB: {"x", "y"}}, zero: map[string][]string{coresA: {"x", "y"}, coresB: {"x", "y"}}}, [][]string{{"warning " + coresA + ", " + coresB + ": is zero on each of 2 nodes: x, y:"}}},
		"one of two has lost it": {clusterFacts{types: types, node: "me", all: true, lacking: map[string][]string{coresA: {"x", "y"}}, zero: map[string][]string{coresA: {"y"}}}, [][]string{{"warning " + coresA + ": is zero on the node y:"}, {"ok " + coresA + ": not advertised on the node x, where"}}},
		"others lack one each":   {clusterFacts{types: types, node: "me", all: true, lacking: map[string][]string{coresA: {"x"}, coresB: {"y"}}}, [][]string{{"ok " + coresA + ": not advertised on the node x,"}, {"ok " + coresB + ": not advertised on the node y,"}}},
		"this one and another":   {clusterFacts{types: types, node: "me", all: true, lacking: map[string][]string{coresA: {"me", "x"}}}, [][]string{{"error ", coresA}, {"ok ", "the node x"}}},
		"many":                   {clusterFacts{types: types, node: "me", all: true, lacking: map[string][]string{coresA: many}}, [][]string{{"each of 12 nodes: n00", "n09, ..., where"}}},
		"no API server":          {clusterFacts{types: types, unasked: errors.New("no kubeconfig")}, [][]string{{"warning no kubeconfig: whether the Node has " + coresA, "--kubeconfig"}}},
		"it does not answer":     {clusterFacts{types: types, node: "me", mayPatch: fmt.Errorf("patch: %w", kubeapi.ErrUnreachable)}, [][]string{{"warning whether the Node has ", "patch: "}}},
		"it stops to answer":     {clusterFacts{types: types, node: "me", stopped: fmt.Errorf("list: %w", kubeapi.ErrUnreachable)}, [][]string{{"warning whether the Node has ", "list: "}}},
		"an error that is a no":  {clusterFacts{types: types, node: "me", lacking: map[string][]string{}, mayPatch: kubeapi.ErrForbidden}, [][]string{{"ok "}}},
		"types without resource": {clusterFacts{types: []workloadType{off}, unasked: errors.New("no kubeconfig")}, [][]string{{"ok no workload type has"}}},
	} {
		expectLines(t, name, resourceFindings(&test.facts), test.want)
	}
}

// TestRightsFindings: a missing right is an error with the rule that gives it.
func TestRightsFindings(t *testing.T) {
	t.Parallel()
	types := []workloadType{typeOf("a")}
	alone := typeOf("a")
	alone.Advertise = false
	none := alone
	none.ByNamespace = false
	forbidden := fmt.Errorf("said no: %w", kubeapi.ErrForbidden)
	unreachable := fmt.Errorf("silent: %w", kubeapi.ErrUnreachable)
	const namespaces, status = `add {apiGroups: [""], resources: [namespaces], verbs: [get]} to the rules`,
		`add {apiGroups: [""], resources: [nodes/status], verbs: [patch]} to the rules`
	for name, test := range map[string]struct {
		facts clusterFacts
		want  [][]string
	}{
		"none is needed":    {clusterFacts{types: []workloadType{none}, mayGet: forbidden}, [][]string{{"ok no workload type needs a right"}}},
		"both":              {clusterFacts{types: types, server: "S", kubeconfig: "K"}, [][]string{{"ok S lets the monitor", "K"}}},
		"not namespaces":    {clusterFacts{types: types, server: "S", kubeconfig: "K", mayGet: forbidden}, [][]string{{"error the user of K may not get namespaces at S", namespaces, "render admission"}}},
		"not the status":    {clusterFacts{types: types, server: "S", kubeconfig: "K", mayPatch: forbidden}, [][]string{{"error the user of K may not patch nodes/status", coresA, status}}},
		"neither":           {clusterFacts{types: types, mayGet: forbidden, mayPatch: forbidden}, [][]string{{namespaces}, {status}}},
		"no Node":           {clusterFacts{types: types, mayPatch: fmt.Errorf("no node: %w", kubeapi.ErrGone)}, [][]string{{"warning no node: "}}},
		"said already":      {clusterFacts{types: types, unasked: errors.New("no kubeconfig")}, nil},
		"unreachable, said": {clusterFacts{types: types, mayPatch: unreachable}, [][]string{{"ok "}}},
		"unreachable":       {clusterFacts{types: []workloadType{alone}, mayGet: unreachable}, [][]string{{"warning silent: "}}},
	} {
		expectLines(t, name, rightsFindings(&test.facts), test.want)
	}
}

// TestNamespaceFindings: what bounds CPU in a namespace that may use a type refuses converted pods.
func TestNamespaceFindings(t *testing.T) {
	t.Parallel()
	rule := func(namespace string, fields ...string) kubeapi.CPURule {
		return kubeapi.CPURule{Namespace: namespace, Name: "r", Fields: fields}
	}
	listedType, members, silent := typeOf("a", "ops"), typeOf("b"), typeOf("c", "quiet")
	members.mayAsk, silent.Advertise = []string{"telemetry"}, false
	types := []workloadType{listedType, members, silent}
	annotated := map[string][]string{"free": {"x", "a"}, "other": {"x"}}
	for name, test := range map[string]struct {
		limits, quotas []kubeapi.CPURule
		want           [][]string
	}{
		"none":                      {nil, nil, nil},
		"a maximum":                 {[]kubeapi.CPURule{rule("ops", "Container max", "Container default")}, nil, [][]string{{"warning the LimitRange ops/r (Container max) refuses"}}},
		"a minimum":                 {[]kubeapi.CPURule{rule("telemetry", "Pod min")}, nil, [][]string{{"telemetry/r (Pod min)"}}},
		"a ratio":                   {[]kubeapi.CPURule{rule("free", "Container maxLimitRequestRatio")}, nil, [][]string{{"free/r (Container maxLimitRequestRatio)"}}},
		"defaults are converted":    {[]kubeapi.CPURule{rule("ops", "Container default", "Container defaultRequest")}, nil, nil},
		"several in one line":       {[]kubeapi.CPURule{rule("ops", "Pod min"), rule("free", "Pod max")}, nil, [][]string{{"each of 2 LimitRanges: ops/r (Pod min), free/r (Pod max) refuses"}}},
		"a quota":                   {nil, []kubeapi.CPURule{rule("ops", "requests.cpu")}, [][]string{{"warning the ResourceQuota ops/r (requests.cpu) refuses", "requests.TYPE.workload.openshift.io/cores"}}},
		"both kinds":                {[]kubeapi.CPURule{rule("ops", "Pod min")}, []kubeapi.CPURule{rule("ops", "cpu")}, [][]string{{"LimitRange"}, {"ResourceQuota"}}},
		"other namespaces":          {[]kubeapi.CPURule{rule("web", "Pod min"), rule("other", "Pod min")}, []kubeapi.CPURule{rule("web", "cpu")}, nil},
		"a type without a resource": {[]kubeapi.CPURule{rule("quiet", "Pod min")}, []kubeapi.CPURule{rule("quiet", "cpu")}, nil},
	} {
		expectLines(t, name, namespaceFindings(&clusterFacts{types: types, annotated: annotated, limits: test.limits, quotas: test.quotas}), test.want)
	}
	closed := listedType
	closed.ByNamespace = false
	facts := clusterFacts{types: []workloadType{closed}, annotated: annotated, limits: []kubeapi.CPURule{rule("free", "Pod min")}}
	expectLines(t, "annotations do not count", namespaceFindings(&facts), nil)
}

// TestSilentPods: a pod that may ask for a type and does not is found, unless it is a member all
// the same.
func TestSilentPods(t *testing.T) {
	t.Parallel()
	facts := &clusterFacts{types: []workloadType{typeOf("a", "ops")}, annotated: map[string][]string{"free": {"a"}}}
	members := membership.New(membership.Claim{Partition: unitname.System, Namespaces: []string{"kube-system", "both"}})
	facts.types[0].Allowed = append(facts.types[0].Allowed, "both")
	asks := membership.Origin{Ask: workload.Ask{Type: "a"}}
	expectLines(t, "pods", silentPods(facts, members, []askingPod{
		{"ops", "silent", membership.Origin{}}, {"free", "silent", membership.Origin{}}, {"ops", "asks", asks},
		{"ops", "asks wrongly", membership.Origin{Ask: workload.Ask{Flaw: workload.TwoTypes}}},
		{"both", "a member", membership.Origin{}}, {"web", "shop", membership.Origin{}},
	}), [][]string{{"warning each of 2 pods: free/silent, ops/silent ", "target.workload.openshift.io/TYPE"}})
	expectLines(t, "none", silentPods(facts, members, []askingPod{{"ops", "asks", asks}}), nil)
}

// TestCRIOFindings: an entry of CRI-O's table is a hole unless a policy is known to guard it.
func TestCRIOFindings(t *testing.T) {
	t.Parallel()
	target := crioconfig.Workload{File: "/etc/crio/c", Annotation: "target.workload.openshift.io/management", CPUs: "0-1"}
	pools := func(cpus ...int) map[string]cpuset.CPUSet {
		return map[string]cpuset.CPUSet{target.Annotation: cpuset.New(cpus...)}
	}
	another := crioconfig.Workload{File: "/etc/crio/d", Annotation: "io.openshift/own", Allows: "io.kubernetes.cri-o.Devices"}
	for name, test := range map[string]struct {
		facts crioFacts
		want  [][]string
	}{
		"no table":             {crioFacts{}, [][]string{{"ok CRI-O gives no CPUs by an annotation"}}},
		"broken":               {crioFacts{err: errors.New("line 7")}, [][]string{{"warning ", "is not known: line 7"}}},
		"containerd":           {crioFacts{runtime: "containerd", table: []crioconfig.Workload{target}}, [][]string{{"ok the runtime containerd has no table"}}},
		"OpenShift":            {crioFacts{openShift: "os-release", table: []crioconfig.Workload{target, another}}, [][]string{{"ok OpenShift's API server guards"}}},
		"no policy":            {crioFacts{runtime: "cri-o", table: []crioconfig.Workload{target}}, [][]string{{"warning CRI-O gives any pod", "management in /etc/crio/c (CPUs 0-1)", "no admission policy node-partition-workloads is in force", "render admission"}}},
		"unknown":              {crioFacts{table: []crioconfig.Workload{target}, unknown: errors.New("may not read")}, [][]string{{"warning ", "is not known: may not read"}}},
		"guarded":              {crioFacts{table: []crioconfig.Workload{target}, guarded: true}, [][]string{{"ok the policy node-partition-workloads guards"}}},
		"another annotation":   {crioFacts{table: []crioconfig.Workload{another}, guarded: true}, [][]string{{"warning ", "io.openshift/own in /etc/crio/d (without CPUs, and allows io.kubernetes.cri-o.Devices)", "are not about this annotation", "--ignore=crio-workloads"}}},
		"the partition's CPUs": {crioFacts{table: []crioconfig.Workload{target}, guarded: true, pools: pools(0, 1)}, [][]string{{"ok the policy"}}},
		"other CPUs":           {crioFacts{table: []crioconfig.Workload{target}, guarded: true, pools: pools(2, 3)}, [][]string{{"warning ", "management CPUs 0-1 by /etc/crio/c, and its partition has the CPUs 2-3", "render crio"}}},
		"other, and open":      {crioFacts{table: []crioconfig.Workload{target}, pools: pools(2, 3)}, [][]string{{"has the CPUs 2-3"}, {"any pod with the annotation"}}},
		"other, on OpenShift":  {crioFacts{openShift: "os-release", table: []crioconfig.Workload{target}, pools: pools(2)}, [][]string{{"has the CPUs 2"}, {"ok OpenShift's"}}},
		"no CPUs there":        {crioFacts{table: []crioconfig.Workload{{Annotation: target.Annotation}}, guarded: true, pools: pools(2, 3)}, [][]string{{"ok the policy"}}},
		"not a list":           {crioFacts{table: []crioconfig.Workload{{Annotation: target.Annotation, CPUs: "all"}}, guarded: true, pools: pools(2, 3)}, [][]string{{"warning ", "CPUs all by"}}},
		"both, and no policy":  {crioFacts{table: []crioconfig.Workload{target, another, target}}, [][]string{{"CPUs 0-1), target"}, {"io.openshift/own"}}},
	} {
		expectLines(t, name, crioFindings(&test.facts), test.want)
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
			Annotations: map[string]string{policy.TypesKey: test.rendered}, Denies: !test.audited,
		}}
		expectLines(t, name, f.stale(), test.want)
	}
	if found := (&clusterFacts{types: []workloadType{own}}).stale(); found != nil {
		t.Errorf("without a policy: %v", found)
	}
}

const (
	systemSection = "systemPartition: {memoryLimit: 64Mi, cpuset: \"1\", namespaces: [kube-system, monitoring]}\n"
	typesSection  = "workloadPartitions:\n  a: {partition: system, allowedNamespaces: [ops]}\n"
)

// lists is a cluster that an administrator looks at: two nodes, of which one has no resource.
func lists(annotated, limit, hard string) map[string]string {
	node := func(name, value string) string {
		return `{"metadata":{"name":"` + name + `"},"status":{"allocatable":{"` + coresA + `":"` + value + `"}}}`
	}
	return map[string]string{
		"GET /api/v1/nodes":      `{"items":[` + node(fakeapi.Node, "4k") + "," + node("worker-2", "0") + `]}`,
		"GET /api/v1/namespaces": `{"items":[{"metadata":{"name":"free","annotations":{"workload.openshift.io/allowed":"` + annotated + `"}}},{"metadata":{"name":"web"}}]}`,
		"GET /api/v1/limitranges": `{"items":[{"metadata":{"namespace":"free","name":"l"},"spec":{"limits":[{"type":"Container","` + limit +
			`":{"cpu":"1","memory":"1Gi"},"min":{"memory":"1Mi"}}]}}]}`,
		"GET /api/v1/resourcequotas": `{"items":[{"metadata":{"namespace":"ops","name":"q"},"spec":{"hard":{"` + hard + `":"1","pods":"7"}}}]}`,
	}
}

// typed returns a node with a workload type, whose Node is node-1 of its cluster.
func typed(t *testing.T) *fakenode.Node {
	t.Helper()
	n := fakenode.Whole(t)
	n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(systemSection+typesSection))
	n.Write(fakenode.SystemCgroup+"/cpuset.cpus", "1")
	n.RunKubelet("--hostname-override=" + fakeapi.Node)
	return n
}

// TestCheckWorkloadsAdministrator: with the rights of an administrator all is checked, each list is
// read once, and nothing is written.
func TestCheckWorkloadsAdministrator(t *testing.T) {
	t.Parallel()
	n := typed(t)
	const policies = "GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/" + policy.Name
	n.Cluster.Objects = lists("a", "max", "requests.cpu")
	n.Cluster.Answers[policies] = http.StatusNotFound
	stdout, _ := text(t, n, nil)
	for _, part := range []string{
		"warning workload-resource: " + coresA + ": is zero on the node worker-2:", "ok      workload-rights: ",
		"warning workload-namespaces: the LimitRange free/l (Container max) refuses", "warning workload-namespaces: the ResourceQuota ops/q (requests.cpu) refuses",
		"see: /usr/share/doc/node-partition/troubleshooting.md#workload-types\n",
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
	if strings.Contains(stdout, "the policy ") {
		t.Errorf("a finding about policies, which the cluster does not have, in\n%s", stdout)
	}
	came := n.Cluster.Came()
	for _, list := range []string{"nodes", "namespaces", "limitranges", "resourcequotas"} {
		if count := len(slices.DeleteFunc(slices.Clone(came), func(line string) bool { return line != "GET /api/v1/"+list })); count != 1 {
			t.Errorf("%s is read %d times in %q", list, count, came)
		}
	}
	n.Cluster.Objects = lists("other", "default", "limits.memory")
	delete(n.Cluster.Answers, policies)
	n.Cluster.Objects[policies] = `{"metadata":{"annotations":{"` + policy.TypesKey + `":"[]"}}}`
	const stale = "warning workload-resource: the policy node-partition-workloads is not of this configuration: it does not have the type a"
	expect(t, n, passes, []string{stale, "ok      workload-namespaces: nothing in the namespaces"})
	without := strings.Replace(systemSection+typesSection, "ops]", "ops], advertise: false", 1)
	n.Write("/etc/kubernetes/node-partition.yaml", fakenode.Configuration(without))
	expect(t, n, passes, []string{"ok      workload-resource: no workload type has a resource on the Node", stale})
}

// TestCheckWorkloadsKubelet: a kubelet's user may look at its own Node. What it may not is asked
// for once, and said once.
func TestCheckWorkloadsKubelet(t *testing.T) {
	t.Parallel()
	n := typed(t)
	const own = "GET /api/v1/nodes/" + fakeapi.Node
	n.Cluster.Answers["GET /api/v1/nodes"] = http.StatusForbidden
	n.Cluster.Objects = map[string]string{own: `{"status":{"allocatable":{"` + coresA + `":"4k"}}}`}
	stdout, _ := text(t, n, nil)
	for _, part := range []string{
		"ok      workload-resource: the Node " + fakeapi.Node + " has " + coresA, "ok      workload-resource: other nodes, LimitRanges and quotas are not checked",
		"ok      workload-rights: ", "ok      workload-namespaces: ",
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
	if strings.Count(stdout, "is not checked")+strings.Count(stdout, "are not checked") != 1 {
		t.Errorf("what is not checked is not said once:\n%s", stdout)
	}
	came := n.Cluster.Came()
	for _, line := range []string{"GET /api/v1/limitranges", "GET /api/v1/namespaces", "GET /api/v1/resourcequotas"} {
		if slices.Contains(came, line) {
			t.Errorf("%s came, for which the user of a kubelet has no right either: %q", line, came)
		}
	}
	n.Cluster.Objects[own] = `{"status":{"allocatable":{"cpu":"4"}}}`
	expect(t, n, fails, []string{"error   workload-resource: " + coresA + ": the Node " + fakeapi.Node + " has none of it"})
	n.Cluster.Objects[own] = `{"status":{"allocatable":{"` + coresA + `":"4k"}}}`
	n.Cluster.Answers["PATCH /api/v1/nodes/"+fakeapi.Node+"/status"] = http.StatusForbidden
	n.Cluster.Answers["GET /api/v1/namespaces/default"] = http.StatusForbidden
	expect(t, n, fails, []string{"error   workload-rights: the user of /var/lib/kubelet/kubeconfig may not get namespaces", "may not patch nodes/status"})
}

// TestCheckWorkloadsWithoutAPI: a node without an API server is not an error.
func TestCheckWorkloadsWithoutAPI(t *testing.T) {
	t.Parallel()
	n := typed(t)
	expect(t, n, passes, []string{"warning workload-resource: the API server is not asked (--kubeconfig): whether the Node has " + coresA},
		func(o *options.Options, _ *fakenode.Node) { o.Eviction.Kubeconfig = options.KubeconfigNone })
	n.Cluster.Close()
	stdout, _ := text(t, n, nil)
	if strings.Count(stdout, "cannot be reached") != 3 || !strings.Contains(stdout, "warning workload-resource: whether the Node has "+coresA+" is not known: API server ") {
		t.Errorf("want the API server three times, by eviction-api, events and workload-resource, in\n%s", stdout)
	}
}

// TestCheckWorkloadsForeign: the cluster is not asked about another node, and its files are read.
func TestCheckWorkloadsForeign(t *testing.T) {
	t.Parallel()
	n := typed(t)
	n.Cluster.Objects = lists("a", "max", "requests.cpu")
	n.Write("/etc/crio/crio.conf.d/01-workload", "[crio.runtime.workloads.management]\nactivation_annotation = \"target.workload.openshift.io/management\"\nresources = { \"cpushares\" = 0, \"cpuset\" = \"0-1\" }")
	n.Write("/etc/kubernetes/openshift-workload-pinning", `{"a": {"cpuset": "0"}}`)
	stdout, _ := text(t, n, nil, func(o *options.Options, _ *fakenode.Node) { o.Node.Foreign = true })
	for _, part := range []string{
		"warning crio-workloads: CRI-O gives any pod with the annotation CPUs and shares of its choice: target.workload.openshift.io/management in /etc/crio/crio.conf.d/01-workload (CPUs 0-1): whether an admission policy guards it is not known: not asked",
		`warning configuration: /etc/kubernetes/openshift-workload-pinning: a.cpuset: "0": /etc/kubernetes/node-partition.yaml: systemPartition.cpuset is "1", and counts`,
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("want %q in\n%s", part, stdout)
		}
	}
	for _, name := range []string{"workload-resource", "workload-rights", "workload-namespaces"} {
		if strings.Contains(stdout, name) {
			t.Errorf("%s in\n%s", name, stdout)
		}
	}
	if came := n.Cluster.Came(); len(came) > 0 {
		t.Errorf("the API server was asked %q", came)
	}
}

// TestCheckCRIOPolicy: the policy and its binding are asked for where CRI-O has a table.
func TestCheckCRIOPolicy(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system"))
	n.Partition(fmt.Sprint(64 << 20))
	c := fakeapi.New(t, httptest.NewServer)
	c.Kubeconfig(t, n.Root+"/var/lib/kubelet/kubeconfig")
	const policies, bindings = "GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/node-partition-workloads",
		"GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/node-partition-workloads"
	c.Objects = map[string]string{policies: `{}`, bindings: `{"spec":{"validationActions":["Deny"]}}`}
	asked := func(want int) {
		t.Helper()
		if count := len(slices.DeleteFunc(c.Came(), func(line string) bool { return line != policies && line != bindings })); count != want {
			t.Errorf("asked %d times; want %d", count, want)
		}
	}
	expect(t, n, fails, []string{"ok      crio-workloads: CRI-O gives no CPUs by an annotation"})
	asked(0)
	n.Write("/etc/crio/crio.conf", "[crio.runtime.workloads.a]\nactivation_annotation = 'target.workload.openshift.io/a'")
	expect(t, n, fails, []string{"ok      crio-workloads: the policy node-partition-workloads guards"})
	asked(2)
	c.Objects[bindings] = `{"spec":{"validationActions":["Audit"]}}`
	expect(t, n, fails, []string{"warning crio-workloads: ", "no admission policy node-partition-workloads is in force"})
	asked(2)
	c.Answers[bindings] = http.StatusNotFound
	expect(t, n, fails, []string{"warning crio-workloads: ", "no admission policy node-partition-workloads is in force"})
	asked(2)
	c.Answers[policies] = http.StatusForbidden
	expect(t, n, fails, []string{"warning crio-workloads: ", "is not known: API server ", "needs the right to get validatingadmissionpolicies"})
	asked(1)
}

// TestCheckSilentPods: the file and the namespaces that the monitor has asked about say who may ask
// for a type.
func TestCheckSilentPods(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Valid("kube-system")+typesSection)
	n.Partition(fmt.Sprint(64 << 20))
	sandbox := func(namespace, name string, state runtime.PodSandboxState) *runtime.PodSandbox {
		return &runtime.PodSandbox{Id: name, State: state, Metadata: &runtime.PodSandboxMetadata{Namespace: namespace, Name: name, Uid: name}}
	}
	n.Serve(&fakenode.Runtime{Sandboxes: []*runtime.PodSandbox{
		sandbox("ops", "one", runtime.PodSandboxState_SANDBOX_READY), sandbox("free", "two", runtime.PodSandboxState_SANDBOX_READY),
		sandbox("ops", "ended", runtime.PodSandboxState_SANDBOX_NOTREADY), sandbox("web", "shop", runtime.PodSandboxState_SANDBOX_READY),
	}})
	none := func(o *options.Options, _ *fakenode.Node) { o.Eviction.Kubeconfig = options.KubeconfigNone }
	expect(t, n, passes, []string{"warning workload-namespaces: the pod ops/one "}, none)
	n.Write(node.NamespacesFile, "") // makes the folder
	err := node.WriteNamespaces(n.Host(), node.Namespaces{Known: map[string]node.Namespace{"free": {Types: []string{"a"}}}})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, n, passes, []string{"warning workload-namespaces: each of 2 pods: free/two, ops/one "}, none)
}

// TestCheckPartitionWithoutNamespaces: the right to evict is asked for in a namespace of another
// partition, or in kube-system.
func TestCheckPartitionWithoutNamespaces(t *testing.T) {
	t.Parallel()
	n := fakenode.New(t, fakenode.Configuration("workloadPartitions: {a: {allowedNamespaces: [ops]}}\n"))
	c := fakeapi.New(t, httptest.NewServer)
	c.Kubeconfig(t, n.Root+"/var/lib/kubelet/kubeconfig")
	expect(t, n, fails, []string{"ok      eviction-api: "})
	n.Write("/var/lib/kubelet/config.yaml", fakenode.Configuration("workloadPartitions: {a: {allowedNamespaces: [ops]}, b: {namespaces: [jobs]}}\n"))
	c.Came()
	expect(t, n, fails, []string{"ok      eviction-api: "})
	if came := c.Came(); !slices.ContainsFunc(came, func(line string) bool { return strings.Contains(line, "/namespaces/jobs/pods/") }) {
		t.Errorf("%q", came)
	}
}
