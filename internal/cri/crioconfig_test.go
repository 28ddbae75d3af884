package cri

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
)

// TestWorkloads: a later file replaces an entry as a whole. A table may be written inline.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	const a = "[crio.runtime.workloads.a]\nactivation_annotation = \"x/a\"\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  []ConfiguredWorkload
		err   string
	}{
		"nothing":    {nil, nil, ""},
		"no table":   {map[string]string{mainPath: "[crio.runtime]\nselinux = false\n[crio.api]\nlisten = \"/x\""}, nil, ""},
		"main":       {map[string]string{mainPath: a + "resources = { \"cpushares\" = 0, \"cpuset\" = \"0-1\" }"}, []ConfiguredWorkload{{"a", mainPath, "x/a", "0-1"}}, ""},
		"a subtable": {map[string]string{mainPath: a + "[crio.runtime.workloads.a.resources]\ncpuset = \"2\"\ncpushares = 5"}, []ConfiguredWorkload{{"a", mainPath, "x/a", "2"}}, ""},
		"dotted":     {map[string]string{mainPath: "crio.runtime.workloads.\"a b\".activation_annotation = 'x'"}, []ConfiguredWorkload{{"a b", mainPath, "x", ""}}, ""},
		"drop-ins": {map[string]string{
			mainPath: a + "resources = {cpuset = \"0\"}", dropinDir + "/2": a, dropinDir + "/1": strings.ReplaceAll(a, "a]", "b]") + "resources = {cpuset = \"1\"}",
			dropinDir + "/0/9": strings.ReplaceAll(a, "x/a", "y") + "resources = {cpuset = \"9\"}",
		}, []ConfiguredWorkload{{"a", dropinDir + "/2", "x/a", ""}, {"b", dropinDir + "/1", "x/a", "1"}}, ""},
		"not TOML":     {map[string]string{dropinDir + "/1": "a\n"}, nil, dropinDir + "/1: toml: line 1"},
		"another type": {map[string]string{mainPath: "[crio.runtime.workloads]\na = 7"}, nil, mainPath + ": "},
	} {
		root := t.TempDir()
		for path, text := range test.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ConfiguredWorkloads(host.Root(root))
		if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && !strings.HasPrefix(err.Error(), test.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, test.want, test.err)
		}
	}
}

// FuzzAdd: a file that is read twice gives what it gives once, and each entry has its name.
func FuzzAdd(f *testing.F) {
	f.Add([]byte("[crio.runtime.workloads.a]\nactivation_annotation = \"x\"\nresources = { \"cpuset\" = \"0-1\" }"))
	f.Add([]byte("crio.runtime.workloads = {a = {}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		once := map[string]ConfiguredWorkload{}
		if add(once, "f", data) != nil {
			return
		}
		twice := maps.Clone(once)
		if err := add(twice, "f", data); err != nil || !maps.Equal(once, twice) {
			t.Errorf("%v, and then %v, %v", once, twice, err)
		}
		for name, w := range once {
			if w.Name != name || w.File != "f" {
				t.Errorf("%q has %+v", name, w)
			}
		}
	})
}
