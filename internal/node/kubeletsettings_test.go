package node

import (
	"encoding/json"
	"testing"
)

// TestSetDefaults: the kubelet completes evictionHard of the main file only.
func TestSetDefaults(t *testing.T) {
	t.Parallel()
	const both = `{"memory.available":"100Mi","nodefs.available":"10%"}`
	for name, test := range map[string]struct{ hard, merge, want string }{
		"absent":           {"", "", both},
		"null":             {"null", "", both},
		"empty":            {"{}", "", "{}"},
		"set":              {`{"memory.available":"1Gi"}`, "", `{"memory.available":"1Gi"}`},
		"merged":           {`{"memory.available":"1Gi"}`, "true", `{"memory.available":"1Gi","nodefs.available":"10%"}`},
		"not merged":       {`{"memory.available":"1Gi"}`, "false", `{"memory.available":"1Gi"}`},
		"of a wrong type":  {"5", "", "5"},
		"merge of another": {"{}", "5", "{}"},
	} {
		main := map[string]json.RawMessage{}
		if test.hard != "" {
			main["evictionHard"] = json.RawMessage(test.hard)
		}
		if test.merge != "" {
			main["mergeDefaultEvictionSettings"] = json.RawMessage(test.merge)
		}
		if err := setDefaults(main); err != nil || string(main["evictionHard"]) != test.want {
			t.Errorf("%s: %s, %v; want %s", name, main["evictionHard"], err, test.want)
		}
	}
}
