package render

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
)

const asking = `metadata: {annotations: {target.workload.openshift.io/a: '{"effect":"PreferredDuringScheduling"}'}}
`

// TestPod: a manifest is converted in its form, with the fields that are not known.
func TestPod(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		manifest, typeName string
		want               []string
		warning, problem   string
	}{
		"YAML": {
			manifest: "apiVersion: v1\nkind: Pod\n" + asking + `spec: {future: 12345678901234567890, initContainers: [{name: i}],
  containers: [{name: c, resources: {requests: {cpu: "0.4", memory: 1Mi}, limits: {cpu: 1, hugepages-2Mi: 2Mi}}}]}`,
			want: []string{
				"future: 12345678901234567890", "- name: i\n", "limits:\n        a.workload.openshift.io/cores: \"400\"\n        hugepages-2Mi: 2Mi\n",
				"requests:\n        a.workload.openshift.io/cores: \"400\"\n        memory: 1Mi\n",
				`resources.workload.openshift.io/c: '{"cpushares":409,"cpulimit":1000}'`,
			},
		},
		"JSON": {
			manifest: `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":2,"memory":"1Mi"}}},{"name":"d"}]}}`,
			typeName: "a",
			want:     []string{"{\n  \"apiVersion\": \"v1\",", `"a.workload.openshift.io/cores": "2000"`, "}\n"},
		},
		"as it is": {
			manifest: "# a comment\napiVersion: v1\nkind: Pod\n" + asking + "spec: {containers: [{name: c}]}\n",
			want:     []string{"# a comment\napiVersion: v1\nkind: Pod\n" + asking + "spec: {containers: [{name: c}]}\n"},
		},
		"guaranteed": {
			manifest: "apiVersion: v1\nkind: Pod\n" + asking + "spec: {containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Mi}}}]}\n",
			want:     []string{"workload.openshift.io/warning: ", "cpu: 1\n"},
			warning:  "guaranteed",
		},
		"fields are told apart by their case": {
			manifest: "apiVersion: v1\nkind: Pod\n" + asking + "spec: {Containers: [{name: c, resources: {requests: {cpu: 1}}}]}\n",
			want:     []string{"Containers: "},
		},
		"CPU alone": {
			manifest: "apiVersion: v1\nkind: Pod\n" + asking + "spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}\n",
			problem:  "managed container c does not have memory requests",
		},
		"two documents": {manifest: "apiVersion: v1\nkind: Pod\n---\nkind: Pod\n", problem: "has more than one document"},
		"a list":        {manifest: "apiVersion: v1\nkind: PodList\n", problem: "want v1 and Pod"},
		"no object":     {manifest: "[]", problem: "is not an object"},
		"a key twice":   {manifest: "kind: Pod\nkind: Pod\n", problem: "already set"},
		"too large":     {manifest: strings.Repeat(" ", maxManifest+1), problem: "which the kubelet refuses"},
		"another type": {
			manifest: "apiVersion: v1\nkind: Pod\n" + asking, typeName: "b", problem: "--type=b: the pod asks for another workload type",
		},
	} {
		got, warning, err := Pod([]byte(test.manifest), test.typeName)
		if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%s: error %v; want %q", name, err, test.problem)
		}
		if (warning == "") != (test.warning == "") || !strings.Contains(warning, test.warning) {
			t.Errorf("%s: warning %q; want %q", name, warning, test.warning)
		}
		for _, want := range test.want {
			if !strings.Contains(string(got), want) {
				t.Errorf("%s: %q is not in\n%s", name, want, got)
			}
		}
	}
}

// FuzzPod: a converted manifest is a manifest, is not converted again, and says what the conversion
// of its pod says.
func FuzzPod(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\n" + asking + "spec: {containers: [{name: c, resources: {requests: {cpu: 1, memory: 1}}}]}"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":2,"memory":"1Mi"}}},{}]}}`))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {annotations: {resources.workload.openshift.io/c: x}}\nspec: {containers: [c]}"))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		got, _, err := Pod(manifest, "")
		if err != nil {
			return
		}
		again, _, err := Pod(got, "")
		if err != nil {
			t.Fatalf("%v of %q, which was converted from %q", err, got, manifest)
		}
		_, once, err := parse(got)
		if err != nil {
			t.Fatal(err)
		}
		_, twice, err := parse(again)
		if err != nil || !equality.Semantic.DeepEqual(once, twice) {
			t.Errorf("%v: %q is converted again, to %q", err, got, again)
		}
		if json.Valid(manifest) != json.Valid(got) {
			t.Errorf("%q has another form than %q", got, manifest)
		}
	})
}
