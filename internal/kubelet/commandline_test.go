package kubelet

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/tests/testkit"
)

func TestParse(t *testing.T) {
	t.Parallel()
	all := Flags{
		Config: "/etc/k.yaml", ConfigDir: "/etc/k.d", CgroupDriver: "systemd", RuntimeEndpoint: "unix:///run/c.sock",
		FeatureGates: map[string]bool{"A": true, "B": false},
	}
	for _, test := range []struct {
		args string
		want Flags
	}{
		{"", Flags{}},
		{"--config=/etc/k.yaml --config-dir=/etc/k.d --cgroup-driver=systemd --container-runtime-endpoint=unix:///run/c.sock --feature-gates=A=true,B=false", all},
		{"--config /etc/k.yaml --config-dir /etc/k.d --cgroup-driver systemd --container-runtime-endpoint unix:///run/c.sock --feature-gates A=true,B=false", all},
		{"--v=2 -v 2 --config_dir=/a --config=/b --config=/c", Flags{Config: "/c", ConfigDir: "/a"}},
		{"--feature-gates=A=true,B=true --feature-gates B=false,C=perhaps,D", Flags{FeatureGates: map[string]bool{"A": true, "B": false}}},
		{"--bootstrap-kubeconfig /x --config=/b", Flags{Config: "/b"}},
		{"--config=/b -- --config=/c", Flags{Config: "/b"}},
		{"--config", Flags{}},
		{"config=/b -config=/c", Flags{}},
	} {
		got := parse(strings.Fields(test.args))
		if !maps.Equal(got.FeatureGates, test.want.FeatureGates) {
			t.Errorf("%q: gates %v; want %v", test.args, got.FeatureGates, test.want.FeatureGates)
		}
		got.FeatureGates, test.want.FeatureGates = nil, nil
		if got.Config != test.want.Config || got.ConfigDir != test.want.ConfigDir || got.CgroupDriver != test.want.CgroupDriver ||
			got.RuntimeEndpoint != test.want.RuntimeEndpoint {
			t.Errorf("%q: %+v; want %+v", test.args, got, test.want)
		}
	}
}

// nodeWith makes a root with files.
func nodeWith(t *testing.T, files map[string]string) host.Root {
	t.Helper()
	root := t.TempDir()
	testkit.WriteFiles(t, root, files)
	return host.Root(root)
}

// TestRunning: the kubelet is the process of its service, and no other process of that name.
func TestRunning(t *testing.T) {
	t.Parallel()
	const plugin, kubelet = "/usr/bin/plugin\x00--config=/wrong\x00", "/usr/bin/kubelet\x00--config=/right\x00"
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":           {nil, ""},
		"of a pod":       {map[string]string{"/sys/fs/cgroup/kubepods.slice/cgroup.procs": "7\n", "/proc/7/cmdline": kubelet}, ""},
		"of its service": {map[string]string{units[0] + "/cgroup.procs": "5\n6\n7\n", "/proc/6/cmdline": plugin, "/proc/7/cmdline": kubelet}, "/right"},
		"of EKS":         {map[string]string{units[1] + "/cgroup.procs": "7\n", "/proc/7/cmdline": kubelet}, "/right"},
		"of another slice": {map[string]string{
			"/sys/fs/cgroup/kube.slice/kube-services.slice/kubelet.service/cgroup.procs": "7\n", "/proc/7/cmdline": kubelet,
		}, "/right"},
		"of a pod that calls itself so": {map[string]string{
			"/sys/fs/cgroup/kubepods.slice/kubelet.service/cgroup.procs": "7\n", "/proc/7/cmdline": kubelet,
		}, ""},
		"of a user": {map[string]string{
			"/sys/fs/cgroup/user.slice/user-1.slice/kubelet.service/cgroup.procs": "7\n", "/proc/7/cmdline": kubelet,
		}, ""},
		"in a container": {map[string]string{
			"/sys/fs/cgroup/a.slice/a.scope/a.slice/kubelet.service/cgroup.procs": "7\n", "/proc/7/cmdline": kubelet,
		}, ""},
		"between two": {map[string]string{units[0] + "/cgroup.procs": ""}, ""},
		"by its name": {map[string]string{units[0] + "/cgroup.procs": "7\n", "/proc/7/cmdline": "kubelet\x00--config\x00/right\x00"}, "/right"},
	} {
		got, err := Running(nodeWith(t, test.files))
		if got.Config != test.want || errors.Is(err, ErrNotRunning) != (test.want == "") {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, test.want)
		}
	}
}
