package config

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
)

// theirs converts the name of a cgroup in the steps of a kubelet with the systemd driver, and
// returns the path of the cgroup below the mount: ParseSystemdToCgroupName, CgroupName.ToSystemd
// (pkg/kubelet/cm/cgroup_manager_linux.go, 1.37.0) and ExpandSlice (opencontainers/cgroups 0.1.0).
// The kubelet panics on an error.
func theirs(cgroup string) (string, error) {
	parts := strings.Split(strings.TrimSuffix(path.Base(cgroup), ".slice"), "-")
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "_", "-"), "-", "_")
	}
	stem := strings.Join(parts, "-")
	if stem == "" || stem == "-" {
		return "/", nil
	}
	if strings.Contains(stem, "/") {
		return "", errors.New("a slash")
	}
	var expanded, prefix string
	for _, part := range strings.Split(stem, "-") {
		if part == "" {
			return "", errors.New("an empty part")
		}
		expanded += "/" + prefix + part + ".slice"
		prefix += part + "-"
	}
	return expanded, nil
}

// FuzzKubeletSlice: the cgroup of a slice that is made is the one that the kubelet looks for.
func FuzzKubeletSlice(f *testing.F) {
	for _, seed := range []string{
		// The kubelet's own cases (TestParseSystemdToCgroupName, TestCgroupNameToSystemd).
		"/test", "/test.slice", "test-a-b", "Burstable-pod_123", "test-a-b-Burstable.slice",
		// Names of its validation tests and of its help texts.
		"/system.slice", "/kube-reserved", "/system-reserved", "system-reserved-cgroup", "/system.slice/kubelet.service", "/foo/",
		"foo-bar.slice", "/foo/bar", "/foo.slice/foo-bar.slice", "/foo_bar", "foo.slice.slice", "/init.scope",
		"/kube.slice", "a-b", "/a/b", "-", "", "/", ".slice", "a--b", "a-", "..", "memory", "_a", "a/../b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cgroup string) {
		slice := kubeletSlice(cgroup)
		if unfitSlice(slice) != "" {
			return
		}
		want, err := theirs(cgroup)
		if got := "/" + partition.CgroupPath(slice); err != nil || got != want {
			t.Errorf("%q: the cgroup is %q, the kubelet looks for %q, %v", cgroup, got, want, err)
		}
	})
}

func TestUnfitSlice(t *testing.T) {
	const (
		root, characters, dash, pods = "root of all", "letters, digits", "between two parts", "for pods"
		escape, pid1                 = "systemd gives", "of systemd itself"
	)
	for cgroup, want := range map[string]string{
		"/kube.slice": "", "foo-bar.slice": "", "/foo_bar": "", "a:b.c": "", "kubelet.service": "", "cpu_a": "", "memoryx": "",
		"kubepod": "", "kubepodsystem": "", "09AZaz": "", "a-memory": "", "kube-cgroup": "", strings.Repeat("a", 249): "",
		"/": root, "": escape, ".slice": root, "-.slice": root, "-": root,
		"foo--bar": dash, "-foo": dash, "foo-": dash, "--": dash,
		"foo bar": characters, "foo%n": characters, "foo@a": characters, `foo\x2dbar`: characters, "füü": characters,
		"foo\nbar": characters, strings.Repeat("a", 250): characters,
		"/kubepods": pods, "/kubepods.slice": pods, "kubepods-burstable": pods, "/kubepods.slice/kubepods-system.slice": pods,
		"init.scope": pid1,
		"memory":     escape, "/memory.slice": escape, "cpu-a": escape, "cgroup.slice": escape, "_foo": escape, ".foo": escape,
		// The limit counts the path of the cgroup, in which each level has the names of those above it.
		strings.Repeat("a-", 57) + "a": "", strings.Repeat("a-", 58) + "a": "too many levels",
		"a-_b": "", "pids.a": escape, "bpf-firewall": escape,
	} {
		if got := unfitSlice(kubeletSlice(cgroup)); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %q, want %q", cgroup, got, want)
		}
	}
}

// testNode returns the root of the node of tests/generator.
func testNode(t *testing.T) host.Root {
	t.Helper()
	root, err := filepath.Abs("../../../tests/generator/node")
	if err != nil {
		t.Fatal(err)
	}
	return host.Root(root)
}

// TestReserveNames: which names an operator is warned of, and which slices are made.
func TestReserveNames(t *testing.T) {
	for _, test := range []struct {
		cgroup, driver string
		slice, warning string // the slice that is made, and a part of the warning
	}{
		{"/kube.slice", "", "kube.slice", ""},
		{"kube", "systemd", "kube.slice", ""},
		{"/a/a-b.slice", "", "a-b.slice", ""},
		{"/a.slice/a-b.slice", "", "a-b.slice", ""},
		{"/a/b/a-b-c", "", "a-b-c.slice", ""},
		{"/system.slice/system-kube.slice", "", "system-kube.slice", ""},
		{"/a/b", "", "b.slice", "want /b.slice or /a.slice/a-b.slice"},
		{"/a/b/c", "", "c.slice", "want /c.slice or /a.slice/a-b.slice/a-b-c.slice"},
		{"/" + strings.Repeat("a/", 30000) + "b", "", "b.slice", "want /b.slice"},
		{"/\u00e4\n/b", "", "b.slice", "want /b.slice"},
		{"/\u00e4\n/b", "cgroupfs", "b.slice", "the cgroup /"},
		{"/a/b-c", "", "b-c.slice", "only the last part counts"},
		{"/system.slice/kubelet.service", "", "kubelet.service.slice", "want the slice of kubelet.service"},
		{"containerd.service", "", "containerd.service.slice", "in which no process runs"},
		{"session-1.scope", "", "session-1.scope.slice", "in which no process runs"},
		{"/kube.slice", "cgroupfs", "kube.slice", ""},
		{"kube.slice", "cgroupfs", "kube.slice", ""},
		{"/a.slice/a-b.slice", "cgroupfs", "a-b.slice", ""},
		{"/kube", "cgroupfs", "kube.slice", "the cgroup /kube, which no slice has"},
		{"/a-b.slice", "cgroupfs", "a-b.slice", "the cgroup /a-b.slice, which no slice has"},
		{"/system.slice", "", "", ""},
		{"/user.slice", "", "", ""},
		{"/user.slice/user-1000.slice", "", "", "exists only while its user is logged in, if at all: making no slice"},
		{"/" + strings.Repeat("a-", 41) + "a", "", strings.Repeat("a-", 41) + "a.slice", ""},
		{"/" + strings.Repeat("a-", 124) + "a", "", "", "has too many levels: making no slice"},
		{"/kubepods", "", "", "is the kubelet's own, for pods: making no slice; want the name of a slice"},
		{"", "", "", "kubeReservedCgroup is missing: the kubelet does not start"},
	} {
		for _, enforcement := range []string{"kube-reserved", "kube-reserved-compressible"} {
			c := &Config{Kubelet: &kubeletconfig.Merged{Kubelet: kubeletconfig.Kubelet{
				EnforceNodeAllocatable: []string{"pods", enforcement}, KubeReservedCgroup: test.cgroup, CgroupDriver: test.driver,
			}}}
			if err := c.reserve(testNode(t)); err != nil {
				t.Fatal(err)
			}
			made := ""
			for _, s := range c.Reserved.Slices {
				made += s.Name
			}
			if made != test.slice {
				t.Errorf("%q, %s: makes %q, want %q", test.cgroup, test.driver, made, test.slice)
			}
			said := strings.Join(c.Warnings, "; ")
			if len(said) > 500 || strings.ContainsFunc(said, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%.80q, %s: %d bytes: %.500q; want a short line of ASCII", test.cgroup, test.driver, len(said), said)
			}
			if !strings.Contains(said, test.warning) || (said == "") != (test.warning == "") {
				t.Errorf("%q, %s: warns %q, want %q", test.cgroup, test.driver, said, test.warning)
			}
		}
	}
}

// TestReserveEnforced: a cgroup that the kubelet does not limit need not exist.
func TestReserveEnforced(t *testing.T) {
	for enforced, want := range map[string]string{
		"": "", "pods": "", "none": "", "kube-reserved": "/a.slice", "pods,system-reserved": "/b.slice",
		"kube-reserved,system-reserved-compressible": "/a.slice /b.slice",
	} {
		c := &Config{Kubelet: &kubeletconfig.Merged{Kubelet: kubeletconfig.Kubelet{
			EnforceNodeAllocatable: strings.Split(enforced, ","), KubeReservedCgroup: "a", SystemReservedCgroup: "b",
		}}}
		if err := c.reserve(testNode(t)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range c.Reserved.Slices {
			got = append(got, "/"+s.Name)
		}
		if text := strings.Join(got, " "); text != want || len(c.Warnings) > 0 {
			t.Errorf("%q makes %q and warns %q, want %q", enforced, text, c.Warnings, want)
		}
		if facts := c.Reserved.HugeTLB && c.Reserved.CPUs.String() == "0-3"; facts != (want != "") {
			t.Errorf("%q: hugetlb %t, CPUs %s", enforced, c.Reserved.HugeTLB, c.Reserved.CPUs)
		}
	}
}

// TestReserveTwice: one slice may be for both, and is made once.
func TestReserveTwice(t *testing.T) {
	c := &Config{Kubelet: &kubeletconfig.Merged{Kubelet: kubeletconfig.Kubelet{
		EnforceNodeAllocatable: []string{"kube-reserved", "system-reserved"},
		KubeReservedCgroup:     "/a.slice", SystemReservedCgroup: "a", ReservedSystemCPUs: "0",
	}}}
	if err := c.reserve(testNode(t)); err != nil {
		t.Fatal(err)
	}
	want := []ReservedSlice{{"a.slice", "kube-reserved", "/var/lib/kubelet/config.yaml"}}
	if !slices.Equal(c.Reserved.Slices, want) {
		t.Errorf("makes %+v, want %+v", c.Reserved.Slices, want)
	}
	if len(c.Warnings) != 2 || !strings.Contains(c.Warnings[0], "does not start with this and reservedSystemCPUs") {
		t.Errorf("warns %q", c.Warnings)
	}
}
