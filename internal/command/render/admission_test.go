package render

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/fakeapi"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestAdmissionReady: all nodes have the resource of a type that is converted. Where pools have
// different types one node has it. What does not go with converted pods is a warning.
func TestAdmissionReady(t *testing.T) {
	t.Parallel()
	serves := func(plural string) string { return `{"resources":[{"name":"` + plural + `"}]}` }
	node := func(name, cores string) string {
		return `{"metadata":{"name":"` + name + `"},"status":{"allocatable":{` + cores + `}}}`
	}
	const coresA, coresB = `"a.workload.openshift.io/cores":"4k"`, `"b.workload.openshift.io/cores":"4k"`
	files := make([]string, 0, 2)
	for _, name := range []string{"a", "b"} {
		files = append(files, filepath.Join(t.TempDir(), name+".yaml"))
		text := fakenode.Configuration("workloadPartitions: {" + name + `: {cpuset: "0"}, plain: {advertise: false}}` + "\n")
		if err := os.WriteFile(files[len(files)-1], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		files    []string
		nodes    []string
		served   map[string]string
		warnings int
		problem  string
	}{
		"each node":              {files[:1], []string{node("1", coresA), node("2", coresA)}, nil, 0, ""},
		"a node lacks it":        {files[:1], []string{node("1", coresA), node("2", coresB)}, nil, 0, "a.workload.openshift.io/cores is missing on the node 2"},
		"pools":                  {files, []string{node("1", coresA), node("2", coresB)}, nil, 0, ""},
		"a pool without a node":  {files, []string{node("1", coresA), node("2", coresA)}, nil, 0, "b.workload.openshift.io/cores is missing on 2 nodes: 1, 2"},
		"Karpenter":              {files[:1], []string{node("1", coresA)}, map[string]string{"GET /apis/karpenter.sh/v1": serves("nodepools")}, 1, ""},
		"VerticalPodAutoscalers": {files[:1], []string{node("1", coresA)}, map[string]string{"GET /apis/autoscaling.k8s.io/v1": serves("verticalpodautoscalers")}, 1, ""},
	} {
		c := fakeapi.New(t, httptest.NewServer)
		c.Objects = map[string]string{
			"GET /apis/admissionregistration.k8s.io/v1": serves("mutatingadmissionpolicies"),
			"GET /api/v1/nodes":                         `{"items":[` + strings.Join(test.nodes, ",") + `]}`,
		}
		for line, answer := range test.served {
			c.Objects[line] = answer
		}
		text, warnings, err := Admission(t.Context(), AdmissionOptions{Files: test.files, Kubeconfig: c.NewKubeconfig(t)})
		if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) || (text == "") != (err != nil) {
			t.Errorf("%s: error %v; want %q", name, err, test.problem)
		}
		if len(warnings) != test.warnings {
			t.Errorf("%s: warnings %q; want %d", name, warnings, test.warnings)
		}
	}
}
