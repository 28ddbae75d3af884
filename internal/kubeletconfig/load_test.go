package kubeletconfig

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// tree makes a root with files. Content that begins with "-> " makes a link.
func tree(t *testing.T, files map[string]string) host.Root {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return host.Root(root)
}

// TestLoadMerge: the merge of a main file and drop-ins equals the kubelet's
// (mergeKubeletConfigurations, 1.37.0).
func TestLoadMerge(t *testing.T) {
	const main, dir = "/etc/kubernetes/kubelet/config.json", "/etc/kubernetes/kubelet/config.json.d/"
	for name, test := range map[string]struct {
		files   map[string]string
		section string
		from    string
	}{
		"objects are merged, lists replaced": {map[string]string{
			main:           head + "systemPartition: {memoryLimit: 1Gi, namespaces: [a, b], evictionHard: {a: '1', b: '2'}}",
			dir + "1.conf": head + "systemPartition: {namespaces: [c], evictionHard: {b: '3'}}",
		}, `{"evictionHard":{"a":"1","b":"3"},"memoryLimit":"1Gi","namespaces":["c"]}`, dir + "1.conf"},
		"null removes": {map[string]string{
			main:           head + "systemPartition: {memoryLimit: 1Gi, cpuset: '0'}",
			dir + "1.conf": head + "systemPartition: {cpuset: null}",
		}, `{"memoryLimit":"1Gi"}`, dir + "1.conf"},
		"the order is that of names, folders included": {map[string]string{
			main:                  head,
			dir + "20.conf":       head + "systemPartition: {cpuset: '20'}",
			dir + "100.conf":      head + "systemPartition: {cpuset: '100'}",
			dir + "10/zzz.conf":   head + "systemPartition: {cpuset: '10/zzz'}",
			dir + "10/sub/0.conf": head + "systemPartition: {cpuset: '10/sub'}",
		}, `{"cpuset":"20"}`, dir + "20.conf"},
		"other endings are not read": {map[string]string{
			main: head + "systemPartition: {cpuset: '0'}", dir + "1.yaml": "x", dir + "1.conf~": "x", dir + "README": "x",
		}, `{"cpuset":"0"}`, main},
		"a drop-in may be a link": {map[string]string{
			main: head, "/srv/a": head + "systemPartition: {cpuset: '0'}", dir + "1.conf": "-> /srv/a",
		}, `{"cpuset":"0"}`, dir + "1.conf"},
		"drop-ins alone":                 {map[string]string{dir + "1.conf": head + "systemPartition: {cpuset: '0'}"}, `{"cpuset":"0"}`, dir + "1.conf"},
		"JSON with tabs":                 {map[string]string{main: "{\n\t\"apiVersion\": \"kubelet.config.k8s.io/v1beta1\",\n\t\"kind\": \"KubeletConfiguration\",\n\t\"systemPartition\": {\"cpuset\": \"0\"}\n}"}, `{"cpuset":"0"}`, main},
		"YAML that looks like JSON":      {map[string]string{main: "{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, systemPartition: {cpuset: '0'}}"}, `{"cpuset":"0"}`, main},
		"the first document counts":      {map[string]string{main: "---\n" + head + "systemPartition: {cpuset: '0'}\n---\n" + head + "systemPartition: {cpuset: '1'}\n"}, `{"cpuset":"0"}`, main},
		"the last of two keys counts":    {map[string]string{main: head + "systemPartition: {cpuset: '0'}\nsystemPartition: {cpuset: '1'}\n"}, `{"cpuset":"1"}`, main},
		"field names are case-sensitive": {map[string]string{main: head + "SystemPartition: {cpuset: '0'}\n"}, ``, ""},
		"lines may end as in Windows":    {map[string]string{main: strings.ReplaceAll(head+"systemPartition:\n  cpuset: '0'\n", "\n", "\r\n")}, `{"cpuset":"0"}`, main},
		"the override wins whole":        {map[string]string{main: head + "systemPartition: {memoryLimit: 1Gi}", OverridePath: head + "systemPartition: {cpuset: '0'}"}, `{"cpuset":"0"}`, OverridePath},
		"an override alone":              {map[string]string{OverridePath: head + "systemPartition: {cpuset: '0'}"}, `{"cpuset":"0"}`, OverridePath},
	} {
		t.Run(name, func(t *testing.T) {
			test.files["/var/lib/dpkg/status"] = "" // a /var that is mounted
			c, err := Load(tree(t, test.files))
			if err != nil {
				t.Fatal(err)
			}
			if string(c.System.JSON) != test.section || c.System.File != test.from {
				t.Errorf("section %s of %q; want %s of %q", c.System.JSON, c.System.File, test.section, test.from)
			}
		})
	}
}

// TestLoadLinkedDropinDirectory: neither filepath.WalkDir nor the kubelet follows the link.
func TestLoadLinkedDropinDirectory(t *testing.T) {
	c, err := Load(tree(t, map[string]string{
		"/srv/dropins/1.conf":           head + "systemPartition: {cpuset: '0'}",
		"/etc/openshift/kubelet.conf.d": "-> /srv/dropins",
	}))
	if err != nil || c.System.JSON != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "/etc/openshift/kubelet.conf.d: not a directory") {
		t.Errorf("%+v, %v; want no section and a warning", c, err)
	}
}

// TestLoadEndpointOfBroken: the endpoint of the runtime does not depend on a valid section.
func TestLoadEndpointOfBroken(t *testing.T) {
	const endpoint = "unix:///run/crio/crio.sock"
	for name, files := range map[string]map[string]string{
		"a broken section":  {"/var/lib/kubelet/config.yaml": head + "systemPartition: {}\ncgroupDriver: [7]\ncontainerRuntimeEndpoint: " + endpoint},
		"a broken override": {"/var/lib/kubelet/config.yaml": head + "containerRuntimeEndpoint: " + endpoint, OverridePath: "{"},
	} {
		if c, err := Load(tree(t, files)); err == nil || c.RuntimeEndpoint != endpoint {
			t.Errorf("%s: %q, %v; want an error, and %s", name, c.RuntimeEndpoint, err, endpoint)
		}
	}
}

// TestFileWith: a message names the file in which to change a field.
func TestFileWith(t *testing.T) {
	c, err := Load(tree(t, map[string]string{
		"/var/lib/kubelet/config.yaml":          head + "cgroupDriver: systemd\nreservedSystemCPUs: '0'",
		"/etc/openshift/kubelet.conf.d/10.conf": head + "cgroupDriver: cgroupfs",
		"/etc/openshift/kubelet.conf.d/20.conf": head + "maxPods: 10",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"cgroupDriver":       "/etc/openshift/kubelet.conf.d/10.conf",
		"reservedSystemCPUs": "/var/lib/kubelet/config.yaml",
		"cgroupRoot":         "/etc/openshift/kubelet.conf.d/20.conf",
	} {
		if got := c.FileWith(field); got != want {
			t.Errorf("FileWith(%s) is %s, want %s", field, got, want)
		}
	}
	if got := (&Merged{}).FileWith("cgroupDriver"); got != "/var/lib/kubelet/config.yaml" {
		t.Errorf("without any file: %s", got)
	}
}

// TestSectionFileWithNull: what a drop-in removes is not there any more, and no file has set what a
// later one leaves out.
func TestSectionFileWithNull(t *testing.T) {
	const dropins = "/etc/openshift/kubelet.conf.d/"
	c, err := Load(tree(t, map[string]string{
		"/var/lib/kubelet/config.yaml": head + "systemPartition: {memoryLimit: 1Gi, evictionHard: {memory.available: 5%}}",
		dropins + "10.conf":            head + "systemPartition: null",
		dropins + "20.conf":            head + "systemPartition: {namespaces: [kube-system]}",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"memoryLimit", "evictionHard", "evictionHard.memory.available", "namespaces"} {
		if got := c.SectionFileWith("systemPartition." + field); got != dropins+"20.conf" {
			t.Errorf("%s is of %s; want the last file with the section", field, got)
		}
	}
}

// TestReadSettings: lines of other programs do not matter. A line of ours that is wrong is an
// error, and the others count.
func TestReadSettings(t *testing.T) {
	for content, want := range map[string]Settings{
		"":                             {},
		"# KUBELET_CONFIG=/a\n":        {},
		"KUBELET_CONFIG=/a/b.yaml\n":   {fileKey: "/a/b.yaml"},
		"KUBELET_CONFIG='/a'\r\n":      {fileKey: "/a"},
		"KUBELET_CONFIG_DIR=/a/b.d/\n": {dirKey: "/a/b.d"},
		"; odd\nPARTITION_MONITOR_ARGS=a \"b\nFOO-BAR\nKUBELET_CONFIG=/a\n": {fileKey: "/a"},
		"SERVICES_SLICE=a.slice\nSERVICES_CPUS=partition\nSERVICES_DELEGATE=yes\n": {
			SliceKey: "a.slice", CPUsKey: "partition", DelegateKey: "yes",
		},
		"SERVICES_A=1\nPARTITION_MEMORY_MAX=2\nSYSTEM_B=3\nIRQ_CPUS=4\nPARTITION_B=5\n": {
			"SERVICES_A": "1", "PARTITION_MEMORY_MAX": "2", "SYSTEM_B": "3", "IRQ_CPUS": "4",
		},
		"KUBELET_CONFIG=/a b'\nSERVICES_SLICE=a.slice\n":                           {SliceKey: "a.slice"},
		"KUBELET_CONFIG=../a\nKUBELET_CONFIG_DIR=/a\nSERVICES_SLICE='b'":           {dirKey: "/a", SliceKey: "b"},
		"KUBELET_CONFIG=/a\nKUBELET_CONFIG=/b\nPARTITION_MONITOR_ARGS=\"--x y\"\n": {fileKey: "/b"},
	} {
		got, err := readSettings(tree(t, map[string]string{SettingsPath: content}))
		wantErr := strings.Contains(content, " b'") || strings.Contains(content, "../")
		if !maps.Equal(got, want) || (err != nil) != wantErr {
			t.Errorf("%q: %+v, %v; want %+v", content, got, err, want)
		}
	}
	if _, err := parseSettings([]byte("\n\nSYSTEM_CPUS='\nSERVICES_CPUS=\"\n")); err == nil ||
		err.Error() != SettingsPath+": error on line 3: unmatched '; want lines of KEY=value\n"+SettingsPath+": error on line 4: unmatched \"; want lines of KEY=value" {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"relative", "/a/../b", "/a//b", "/a/", "/a%n", "/a b", "/ä", "/a\\b", "/a;b"} {
		_, err := readSettings(tree(t, map[string]string{SettingsPath: "KUBELET_CONFIG=\"" + bad + "\"\n"}))
		if err == nil || !strings.Contains(err.Error(), SettingsPath+":") {
			t.Errorf("%q: %v; want an error", bad, err)
		}
	}
	if s, err := readSettings(tree(t, nil)); err != nil || len(s) > 0 {
		t.Errorf("no file: %+v, %v", s, err)
	}
	if _, err := readSettings(tree(t, map[string]string{SettingsPath: "-> " + SettingsPath})); err == nil {
		t.Error("a link to itself: no error")
	}
}

// TestLoadReserved: the fields of the reserved cgroups are read with and without a section, and
// also if the section's file is broken. A broken file of the kubelet's own, and drop-ins whose main
// file is not mounted yet, count for nothing.
func TestLoadReserved(t *testing.T) {
	const main, dropin = "/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet/config.json.d/1.conf"
	const fields = "enforceNodeAllocatable: [kube-reserved]\nkubeReservedCgroup: /a\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  string // the cgroup, if it is enforced
		fails bool
	}{
		"no section":             {map[string]string{main: head + fields}, "/a", false},
		"a section":              {map[string]string{main: head + fields, OverridePath: head + "systemPartition: {cpuset: '0'}"}, "/a", false},
		"a drop-in":              {map[string]string{main: head + fields, dropin: head + "kubeReservedCgroup: /b"}, "/b", false},
		"a broken section":       {map[string]string{main: head + fields, OverridePath: "{"}, "/a", true},
		"a broken trial":         {map[string]string{main: head + fields, TrialPath: head}, "/a", true},
		"a broken file":          {map[string]string{main: head + fields + "{"}, "", true},
		"a broken drop-in":       {map[string]string{main: head + fields, dropin: "{"}, "", true},
		"a wrong type":           {map[string]string{main: head + fields + "systemReservedCgroup: [a]"}, "/a", false},
		"a wrong type of theirs": {map[string]string{main: head + "enforceNodeAllocatable: kube-reserved\nkubeReservedCgroup: /a"}, "", false},
		"half a list":            {map[string]string{main: head + "enforceNodeAllocatable: [kube-reserved, {}]\nkubeReservedCgroup: /a"}, "", false},
		"in the override":        {map[string]string{main: head, OverridePath: head + fields + "systemPartition: {cpuset: '0'}"}, "", false},
		"a late main file":       {map[string]string{dropin: head + fields, "/etc/fstab": "/dev/vdb /var ext4 defaults 0 2\n"}, "", false},
	} {
		c, err := Load(tree(t, test.files))
		got := ""
		if slices.Contains(c.Kubelet.EnforceNodeAllocatable, "kube-reserved") {
			got = c.Kubelet.KubeReservedCgroup
		}
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}
