package evict

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzStore: a state file is either refused, with an error that names it, or read so that it is the
// same after it was written again.
func FuzzStore(f *testing.F) {
	f.Add([]byte(`{"open":[{"uid":"a","cgroup":"b"}],"cooldown":{"o":"2026-11-23T15:00:00Z"},"stays":{"a":1},"last":[{}]}`))
	f.Add([]byte("null"))
	f.Add([]byte(`{"cooldown":{"":"9999-12-31T23:59:59+23:59"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "evictions.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := Store(path).Read()
		if err != nil {
			if !reflect.DeepEqual(h, History{}) {
				t.Errorf("%+v with %v", h, err)
			}
			return
		}
		executions(h.Open)
		if err := Store(path).write(h); err != nil {
			t.Fatalf("%+v cannot be written again: %v", h, err)
		}
		if _, err := Store(path).Read(); err != nil {
			t.Errorf("%+v cannot be read again: %v", h, err)
		}
	})
}

// FuzzProtected: a list that is accepted has one written form.
func FuzzProtected(f *testing.F) {
	for _, seed := range []string{"static,node-critical", "none", "kubelet", "kubelet,static", "", "cluster-critical"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseProtected(text)
		if err != nil {
			return
		}
		if again, err := ParseProtected(p.String()); err != nil || again != p {
			t.Errorf("%q: %v is written %q, and that is %v, %v", text, p, p.String(), again, err)
		}
	})
}
