package kubeletconfig

import (
	"encoding/json"
	"path"
	"strconv"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"node-partition.io/node-partition/internal/partition"
)

// FuzzSettings: an accepted path of any settings file can be written into a unit.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("KUBELET_CONFIG=/etc/kubelet.yaml\nKUBELET_CONFIG_DIR='/etc/d/'\nSERVICES_SLICE=\"a.slice\"\n"))
	f.Add([]byte("# text\nexport KUBELET_CONFIG=$HOME\nKUBELET_CONFIG=/a/../b\nPARTITION_MEMORY_MIN=1Gi\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSettings(data)
		for _, key := range []string{fileKey, dirKey, pinningKey} {
			if name := s[key]; name != "" && name != pinningNone && (!partition.IsPlainPath(name) || path.Clean(name) != name) {
				t.Errorf("%s=%q, %v", key, name, err)
			}
		}
	})
}

// FuzzMerge: drop-ins are merged as by the library that the kubelet uses.
func FuzzMerge(f *testing.F) {
	f.Add(`{"a":1,"b":{"c":[1],"d":null}}`, `{"b":{"c":null,"d":{"e":1.50,"f":null}},"a":{"x":null}}`)
	f.Add(`{"a":null}`, `{"a":{}}`)
	f.Fuzz(func(t *testing.T, main, dropin string) {
		var c Merged
		for i, text := range []string{main, dropin} {
			doc := document{path: strconv.Itoa(i)}
			if json.Unmarshal([]byte(text), &doc.fields) != nil || doc.fields == nil {
				return
			}
			c.docs = append(c.docs, doc)
		}
		fields, err := c.merged(nil)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if theirs, err := jsonpatch.MergePatch([]byte(main), []byte(dropin)); err != nil || !jsonpatch.Equal(ours, theirs) {
			t.Errorf("%s, %v; want %s", ours, err, theirs)
		}
		for name := range c.docs[1].fields {
			if file := fileOf(c.docs, name); file != "1" {
				t.Errorf("%q comes from %q", name, file)
			}
		}
	})
}

// FuzzDocument: a document that is accepted is a KubeletConfiguration, and its fields are JSON.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(head + "systemPartition: {cpuset: '0-3'}\n"))
	f.Add([]byte(`{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "systemPartition": null}`))
	f.Add([]byte("a: &a [1]\nb: [*a, *a]\n---\nc: 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := parseDocument("f", data)
		if err != nil {
			return
		}
		if string(doc.fields["kind"]) == "" || doc.path != "f" {
			t.Errorf("accepted %q of %s", doc.fields, doc.path)
		}
		for name, raw := range doc.fields {
			if !json.Valid(raw) {
				t.Errorf("%s: %q is not JSON", name, raw)
			}
		}
	})
}
