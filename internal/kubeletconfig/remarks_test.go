package kubeletconfig

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRemarks: fields that are there twice, and YAML documents after the first, are remarked on.
// The last of the fields counts, and the first document.
func TestRemarks(t *testing.T) {
	t.Parallel()
	const twice = "systemPartition:\n  cpuset: '0'\n  memoryLimit: 1Gi\n  memoryLimit: 2Gi\n"
	for name, test := range map[string]struct {
		text    string
		remarks []string
		section string
	}{
		"none":               {head + "systemPartition: {cpuset: '0'}\n", nil, `{"cpuset":"0"}`},
		"a field of section": {head + twice, []string{"memoryLimit: is in line 5, and again in line 6, which counts; remove one"}, `{"cpuset":"0","memoryLimit":"2Gi"}`},
		"a section": {head + twice + "systemPartition: {cpuset: '1'}\n", []string{
			"memoryLimit: is in line 5, and again in line 6, which counts; remove one",
			"systemPartition: is in line 3, and again in line 7, which counts; remove one",
		}, `{"cpuset":"1"}`},
		"three times": {head + "systemPartition: {cpuset: '1', cpuset: '2',\n cpuset: '3'}\n", []string{
			"cpuset: is in line 3, and again in line 3, which counts; remove one",
			"cpuset: is in line 3, and again in line 4, which counts; remove one",
		}, `{"cpuset":"3"}`},
		"kind":                   {head + "kind: KubeletConfiguration\nsystemPartition: {}\n", []string{"kind: is in line 2, and again in line 3, which counts; remove one"}, `{}`},
		"a field of the kubelet": {head + "maxPods: 1\nmaxPods: 2\nsystemPartition: {}\n", []string{"maxPods: is in line 3, and again in line 4, which counts; remove one"}, `{}`},
		"a value":                {head + "systemPartition: {cpuset: a, a: cpuset}\n", nil, `{"a":"cpuset","cpuset":"a"}`},
		"JSON": {
			`{"apiVersion": "` + APIVersion + `",` + "\n\t" + `"kind": "` + Kind + `", "systemPartition": {"cpuset": "1",` + "\n" + ` "cpuset": "2"}}`,
			[]string{"cpuset: is in line 2, and again in line 3, which counts; remove one"}, `{"cpuset": "2"}`,
		},
		"a merge that is overridden": {
			head + "featureGates: &a {x: true}\nsystemPartition: {<<: *a, x: 1}\n", nil, `{"x":1}`,
		},
		"a second document": {head + "systemPartition: {}\n---\n# text\nkind: Pod\n---\nmore: 1\n", []string{
			"has a second YAML document in line 6, which does not count, nor does what follows; remove it",
		}, `{}`},
		"a second document of an old Mac": {strings.ReplaceAll(head, "\n", "\r") + "systemPartition: {}\r---\rkind: Pod\r", []string{
			"has a second YAML document in line 5, which does not count, nor does what follows; remove it",
		}, `{}`},
		"a document that is ended and another": {head + "systemPartition: {}\n...\nkind: Pod\n", []string{
			"has a second YAML document, which does not count and is not valid; remove it",
		}, `{}`},
		"a broken second document": {head + "systemPartition: {}\n---\na: [\n", []string{
			"has a second YAML document, which does not count and is not valid; remove it",
		}, `{}`},
		"empty documents": {"---\n" + head + "systemPartition: {}\n---\n---\n# text\n...\n", nil, `{}`},
	} {
		c, err := LoadDocument("node-partition.yaml", []byte(test.text))
		var want []string
		for _, remark := range test.remarks {
			want = append(want, "node-partition.yaml: "+remark)
		}
		if err != nil || !slices.Equal(c.Warnings, want) {
			t.Errorf("%s: %v, %q; want %q", name, err, c.Warnings, want)
		}
		if got := strings.ReplaceAll(string(c.System.JSON), "\n", ""); got != test.section && !strings.HasSuffix(got, test.section[1:]) {
			t.Errorf("%s: %s counts; want %s", name, c.System.JSON, test.section)
		}
	}
}

// TestRemarksBounded: the number of remarks is bounded.
func TestRemarksBounded(t *testing.T) {
	t.Parallel()
	var fields strings.Builder
	for i := range 30 {
		fmt.Fprintf(&fields, "  x%d: 1\n  x%d: 2\n", i, i)
	}
	list, _ := remarks([]byte(head + "systemPartition:\n" + fields.String()))
	if len(list) != maxRepeated+1 || !strings.HasPrefix(list[maxRepeated], "20 more fields are there twice") {
		t.Errorf("%q", list)
	}
}
