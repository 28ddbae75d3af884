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
		"MicroShift, too large":    {map[string]string{pinningPath: strings.Repeat(" ", maxPinningBytes+1), "/etc/systemd/system/microshift.service": ""}, "", ""},
		"OpenShift":                {map[string]string{pinningPath: pinned, "/etc/os-release": "NAME='x\nOPENSHIFT_VERSION=4.20\n"}, "", ""},
		"another vendor's release": {map[string]string{pinningPath: pinned, "/etc/os-release": "OPENSHIFT_VERSION=\nNAME='x\n"}, "a b", ""},
		"another path":             {map[string]string{SettingsPath: "WORKLOAD_PINNING=/srv/p", "/srv/p": pinned}, "a b", ""},
		"a path that is missing":   {map[string]string{SettingsPath: "WORKLOAD_PINNING=/srv/p"}, "", "change WORKLOAD_PINNING in " + SettingsPath},
		"a path that no unit has":  {map[string]string{SettingsPath: "WORKLOAD_PINNING=../a"}, "", "WORKLOAD_PINNING: \"../a\" is not a path"},
		"a path that is not clean": {map[string]string{SettingsPath: "WORKLOAD_PINNING=/srv/../p"}, "", "WORKLOAD_PINNING: \"/srv/../p\" is not a path"},
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

// TestPinningLate: the file that the settings name may come with its file system, and the main
// file's types wait for the main file.
func TestPinningLate(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		SettingsPath: "WORKLOAD_PINNING=/srv/p\n", "/etc/fstab": "LABEL=s /srv ext4\n",
		"/var/lib/dpkg/status": "", "/var/lib/kubelet/config.yaml": head,
	}
	c, err := Load(tree(t, files))
	if err != nil || !slices.Contains(c.Late.Paths, "/srv/p") || !slices.Equal(c.Late.MountUnits, []string{"srv.mount"}) {
		t.Errorf("%+v, %v; want /srv/p to come", c.Late, err)
	}
	if !slices.Contains(c.Looked, Look{"/srv/p", lookMissing}) {
		t.Errorf("looked at %v; want /srv/p among them", c.Looked)
	}
	delete(files, "/var/lib/kubelet/config.yaml")
	files["/etc/fstab"] = "LABEL=s /var ext4\n"
	files["/srv/p"] = `{"a": {"cpuset": "0"}}`
	c, err = Load(tree(t, files))
	if err != nil || c.Workloads.JSON != nil {
		t.Errorf("types %s, %v; want none before the main file", c.Workloads.JSON, err)
	}
}

// TestPinningIdle: a file below an automount that is idle is not looked at.
func TestPinningIdle(t *testing.T) {
	t.Parallel()
	c, err := Load(tree(t, map[string]string{
		"/etc/fstab":                   "server:/b /etc/kubernetes nfs x-systemd.automount 0 0\n",
		"/proc/self/mountinfo":         "1 1 8:1 / / rw - ext4 /dev/vda rw\n41 1 0:41 / /etc/kubernetes rw - autofs systemd-1 rw\n",
		"/var/lib/kubelet/config.yaml": head,
		pinningPath:                    `{"a": {"cpuset": "0"}}`,
	}))
	if err != nil || c.Workloads.JSON != nil || !slices.Contains(c.Idle, pinningPath) {
		t.Errorf("types %s, idle %q, %v; want %s not to be read", c.Workloads.JSON, c.Idle, err, pinningPath)
	}
}

// FuzzPinning: whatever is in the file, each type that is accepted is an object.
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
		var sections map[string]map[string]any
		if len(p.CPUs) > 0 && json.Unmarshal(l.config.Workloads.JSON, &sections) != nil || len(sections) != len(p.CPUs) {
			t.Errorf("%v became %s", p, l.config.Workloads.JSON)
		}
	})
}
