package kubeletconfig

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestPinning: the types of the pinning file are added to the section, whatever that is, and
// messages about them name the file.
func TestPinning(t *testing.T) {
	t.Parallel()
	const pinned = `{"a": {"cpuset": "0"}, "b": {}}`
	for name, test := range map[string]struct {
		files map[string]string
		types string
		err   string
	}{
		"alone":                    {map[string]string{pinningPath: pinned}, "a b", ""},
		"beside a type":            {map[string]string{pinningPath: pinned, OverridePath: head + "workloadPartitions: {b: {}, c: {}}"}, "a b c", ""},
		"beside a null":            {map[string]string{pinningPath: pinned, OverridePath: head + "workloadPartitions: null"}, "a b", ""},
		"beside a null type":       {map[string]string{pinningPath: pinned, OverridePath: head + "workloadPartitions: {a: null}"}, "a b", ""},
		"beside something else":    {map[string]string{pinningPath: pinned, OverridePath: head + "workloadPartitions: [a]"}, "", ""},
		"null":                     {map[string]string{pinningPath: "null"}, "", ""},
		"an empty file":            {map[string]string{pinningPath: ""}, "", "is not a JSON object of workload types"},
		"too large":                {map[string]string{pinningPath: strings.Repeat(" ", maxPinningBytes+1)}, "", "at most 65536 bytes"},
		"CPUs of another type":     {map[string]string{pinningPath: `{"a": {"cpuset": 1}}`}, "", "a.cpuset: 1 is not a string"},
		"MicroShift":               {map[string]string{pinningPath: pinned, "/etc/systemd/system/microshift.service": ""}, "", ""},
		"another vendor's release": {map[string]string{pinningPath: pinned, "/etc/os-release": "OPENSHIFT_VERSION=\nNAME='x\n"}, "a b", ""},
		"a path that no unit has":  {map[string]string{SettingsPath: "WORKLOAD_PINNING=../a"}, "", "WORKLOAD_PINNING: \"../a\" is not a path"},
	} {
		test.files["/var/lib/kubelet/config.yaml"] = head
		c, err := Load(tree(t, test.files))
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v; want %q", name, err, test.err)
		}
		var types map[string]json.RawMessage
		_ = json.Unmarshal(c.Workloads.JSON, &types) // not an object in one case
		if got := strings.Join(slices.Sorted(maps.Keys(types)), " "); got != test.types {
			t.Errorf("%s: types %q; want %q", name, got, test.types)
		}
		if name == "beside a type" && (c.SectionFileWith("workloadPartitions.a.cpuset") != pinningPath || c.SectionFileWith("workloadPartitions.b") != OverridePath) {
			t.Errorf("messages name %s and %s", c.SectionFileWith("workloadPartitions.a.cpuset"), c.SectionFileWith("workloadPartitions.b"))
		}
		if name == "beside a null type" && string(types["a"]) != "null" {
			t.Errorf("a type that is switched off is %s", types["a"])
		}
	}
}

// FuzzPinning: whatever is in the file, each type that is accepted is an object with one text.
func FuzzPinning(f *testing.F) {
	f.Add([]byte(`{"management": {"cpuset": "0-1", "x": 1}}`))
	f.Add([]byte(`{"a": null, "": {"cpuset": null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, _, err := parsePinning("f", data)
		if err != nil {
			if len(p.CPUs) > 0 || !strings.HasPrefix(err.Error(), "f: ") {
				t.Errorf("%v with an error %v", p, err)
			}
			return
		}
		l := &loader{config: &Merged{Pinning: p}}
		if err := l.addPinned(); err != nil {
			t.Fatal(err)
		}
		var sections map[string]map[string]string
		if len(p.CPUs) > 0 && json.Unmarshal(l.config.Workloads.JSON, &sections) != nil || len(sections) != len(p.CPUs) {
			t.Errorf("%v became %s", p, l.config.Workloads.JSON)
		}
	})
}
