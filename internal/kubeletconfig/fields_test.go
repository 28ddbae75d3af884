package kubeletconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// TestFields: defaults are set in the main file before the drop-ins are merged, and not where there
// is none.
func TestFields(t *testing.T) {
	t.Parallel()
	const main, dir, other = "/etc/k.yaml", "/etc/k.d", "/etc/other.yaml"
	setDefaults := func(fields map[string]json.RawMessage) error {
		if fields["evictionHard"] == nil {
			fields["evictionHard"] = json.RawMessage(`{"a":"1","b":"2"}`)
		}
		return nil
	}
	root := tree(t, map[string]string{
		main:             head + "maxPods: 5\nclusterDomain: x",
		dir + "/1.conf":  head + "evictionHard: {b: '3'}",
		dir + "/2.conf":  head + "maxPods: 6",
		dir + "/3.other": "not read",
		other:            head + "maxPods: 7\nsystemPartition: {cpuset: '0'}",
		OverridePath:     head + "systemPartition: {cpuset: '1'}",
	})
	for name, test := range map[string]struct {
		dir   string
		files []string
		want  string
	}{
		"nothing":            {"", nil, "map[]"},
		"a main file":        {"", []string{main}, `map[evictionHard:{"a":"1","b":"2"} maxPods:5]`},
		"with drop-ins":      {dir, []string{main}, `map[evictionHard:{"a":"1","b":"3"} maxPods:6]`},
		"drop-ins alone":     {dir, nil, `map[evictionHard:{"b":"3"} maxPods:6]`},
		"files in order":     {"", []string{main, other}, `map[evictionHard:{"a":"1","b":"2"} maxPods:7]`},
		"files and a folder": {dir, []string{other}, `map[evictionHard:{"a":"1","b":"3"} maxPods:6]`},
	} {
		c, err := LoadFiles(root, test.dir, test.files...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		fields, err := c.merged(setDefaults)
		text := map[string]string{}
		for field, raw := range fields {
			if field == "evictionHard" || field == "maxPods" {
				text[field] = string(raw)
			}
		}
		if got := fmt.Sprint(text); err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, test.want)
		}
		if hasSection := slices.Contains(test.files, other); (string(c.System.JSON) == `{"cpuset":"0"}`) != hasSection {
			t.Errorf("%s: section %s; want the one of the files alone", name, c.System.JSON)
		}
	}
	// The configuration of the node has the same fields.
	node, err := Load(tree(t, map[string]string{"/var/lib/kubelet/config.yaml": head + "maxPods: 8"}))
	if err != nil {
		t.Fatal(err)
	}
	if fields, err := node.merged(setDefaults); err != nil || string(fields["maxPods"]) != "8" {
		t.Errorf("%s, %v", fields, err)
	}
}

func TestFieldsErrors(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"/k.yaml": head + "maxPods: many", "/broken.yaml": "{"})
	if _, err := LoadFiles(root, "", "/none.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v; want one about a missing file", err)
	}
	if _, err := LoadFiles(root, "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v; want one about a missing folder", err)
	}
	if _, err := LoadFiles(root, "", "/k.yaml", "/broken.yaml"); err == nil || !strings.HasPrefix(err.Error(), "/broken.yaml: ") {
		t.Errorf("%v", err)
	}
	c, err := LoadFiles(root, "", "/k.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.merged(func(map[string]json.RawMessage) error { return errors.New("no") }); err == nil || err.Error() != "/k.yaml: no" {
		t.Errorf("%v", err)
	}
	var limits struct {
		MaxPods int32 `json:"maxPods"`
	}
	if err := c.DecodeInto(&limits, nil); err == nil || !strings.HasPrefix(err.Error(), `/k.yaml: maxPods: "many" has the wrong type`) {
		t.Errorf("%v", err)
	}
}

// TestDecodeInto: fields are found by their names in JSON, in embedded structs too. Others stay as
// they are.
func TestDecodeInto(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"/k.yaml": head + "maxPods: 5\npodPidsLimit: 7\nclusterDomain: x", "/k.d/1.conf": head + "maxPods: 6"})
	c, err := LoadFiles(root, "/k.d", "/k.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type Limits struct {
		PodPidsLimit *int64 `json:"podPidsLimit,omitempty"`
	}
	var target struct {
		Limits
		MaxPods  int32  `json:"maxPods"`
		Registry int32  `json:"registryPullQPS"`
		Source   string `json:"-"`
		MaxOpen  int64
	}
	target.Registry, target.Source, target.MaxOpen = 9, "kept", 8
	if err := c.DecodeInto(&target, nil); err != nil {
		t.Fatal(err)
	}
	if p := target.PodPidsLimit; p == nil || *p != 7 || target.MaxPods != 6 || target.Registry != 9 || target.Source != "kept" || target.MaxOpen != 8 {
		t.Errorf("%+v", target)
	}
}

// TestSetFlags: a flag replaces a field of the files as a whole, and messages name it.
func TestSetFlags(t *testing.T) {
	t.Parallel()
	c, err := LoadFiles(tree(t, map[string]string{"/k.yaml": head + "evictionHard: {a: '1', b: '2'}\nmaxPods: 5"}), "", "/k.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.SetFlags(map[string]any{"evictionHard": map[string]string{"a": "3"}, "cgroupsPerQOS": false})
	var got struct {
		EvictionHard  map[string]string `json:"evictionHard"`
		CgroupsPerQOS *bool             `json:"cgroupsPerQOS"`
		MaxPods       int               `json:"maxPods"`
	}
	if err := c.DecodeInto(&got, nil); err != nil || len(got.EvictionHard) != 1 || got.EvictionHard["a"] != "3" || got.CgroupsPerQOS == nil || got.MaxPods != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	if c.FileWith("evictionHard") != commandLine || c.FileWith("maxPods") != "/k.yaml" {
		t.Errorf("%s, %s", c.FileWith("evictionHard"), c.FileWith("maxPods"))
	}
}
