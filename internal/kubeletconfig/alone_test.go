package kubeletconfig

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLoadDocument: a document is for OverridePath, or the kubelet's own.
func TestLoadDocument(t *testing.T) {
	t.Parallel()
	const section = "systemPartition: {cpuset: '1'}\n"
	for _, test := range []struct {
		name, text string
		overrides  bool
		ofKubelet  string
		strangers  string
		warning    string
	}{
		{"mine.yaml", section, true, "", "", ""},
		{"mine.yaml", section + "workloadPartition: {}\n", true, "", "", `unknown field "workloadPartition", ignoring; known are systemPartition and workloadPartitions`},
		{"mine.yaml", section + "cgroupDriver: systemd\n", false, "cgroupDriver", "", ""},
		{"mine.yaml", section + "stray: 1\nmaxPods: 5\n", false, "maxPods", "", ""},
		// A field that neither of the two has decides nothing.
		{"mine.yaml", section + "memoryLimit: 1Gi\ncgroupDrivr: systemd\n", true, "", "cgroupDrivr memoryLimit", ""},
		{"a/50-partition.conf", section, false, "", "", ""},
		{wellKnownFiles[0], section, false, "", "", ""},
		{"a/node-partition.yaml", section + "cgroupDriver: systemd\nmaxPods: 5\n", true, "", "cgroupDriver maxPods", ""},
	} {
		c, err := LoadDocument(test.name, []byte(head+test.text))
		if err != nil || c.System.Overrides != test.overrides || string(c.System.JSON) != `{"cpuset":"1"}` || c.OfKubelet() != test.ofKubelet {
			t.Errorf("%s %q: %v, %+v, %q", test.name, test.text, err, c.System, c.OfKubelet())
		}
		file, strangers := c.Strangers()
		if got := strings.Join(strangers, " "); got != test.strangers || (file == test.name) != test.overrides {
			t.Errorf("%s %q: strangers %q of %q; want %q", test.name, test.text, got, file, test.strangers)
		}
		if file := c.SectionFileWith("systemPartition.cpuset"); file != test.name {
			t.Errorf("%s: the file to change is %q", test.name, file)
		}
		if got := strings.Join(c.Warnings, "; "); !strings.Contains(got, test.warning) || (got == "") != (test.warning == "") {
			t.Errorf("%s %q: %q; want %q", test.name, test.text, got, test.warning)
		}
		if driver := c.Kubelet.CgroupDriver; (driver != "") != (!test.overrides && strings.Contains(test.text, "cgroupDriver")) {
			t.Errorf("%s %q: cgroupDriver %q", test.name, test.text, driver)
		}
	}
	for text, want := range map[string]string{
		"":                                       "is empty",
		head + "maxPods: 10":                     "has no systemPartition section and no workloadPartitions; want",
		section:                                  "apiVersion",
		head + section + "cgroupsPerQOS: many\n": "cgroupsPerQOS: \"many\" has the wrong type",
		head + "#" + strings.Repeat("x", maxFileBytes): "too large: more than 65536 bytes",
	} {
		if _, err := LoadDocument("mine.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "mine.yaml: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v; want mine.yaml: ... %s", text, err, want)
		}
	}
}

// TestLoadFilesOverrides: a section that one file alone has overrides, if the file has nothing
// else.
func TestLoadFilesOverrides(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"/a.yaml": head + "maxPods: 5\n",
		"/b.yaml": head + "systemPartition: {cpuset: '1'}\n",
		"/c.yaml": head + "systemPartition: {cpuset: '2'}\nmaxPods: 6\n",
	})
	for files, want := range map[string]bool{"b": true, "a b": true, "c": false, "b c": false, "a": false} {
		var names []string
		for name := range strings.FieldsSeq(files) {
			names = append(names, filepath.Join("/", name+".yaml"))
		}
		c, err := LoadFiles(root, "", names...)
		if err != nil || c.System.Overrides != want || !slices.Equal(c.Files, names) {
			t.Errorf("%s: %v, %+v; want %v", files, err, c.System, want)
		}
	}
}
