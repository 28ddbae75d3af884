package kubeletconfig

import (
	"encoding/json"
	"path"
	"testing"

	"nodepartition/internal/unitpath"
)

// FuzzSettings: an accepted path of any settings file can be written into a unit.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("KUBELET_CONFIG=/etc/kubelet.yaml\nKUBELET_CONFIG_DIR='/etc/d/'\nSERVICES_SLICE=\"a.slice\"\n"))
	f.Add([]byte("# text\nexport KUBELET_CONFIG=$HOME\nKUBELET_CONFIG=/a/../b\nPARTITION_MEMORY_MIN=1Gi\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSettings(data)
		for _, key := range []string{fileKey, dirKey, pinningKey} {
			if name := s[key]; name != "" && name != pinningNone && (!unitpath.IsPlain(name) || path.Clean(name) != name) {
				t.Errorf("%s=%q, %v", key, name, err)
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
