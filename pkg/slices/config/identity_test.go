package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestIdentity: a configuration is another one if an operator has written something else, and not
// because of its form, its file, or the node.
func TestIdentity(t *testing.T) {
	t.Parallel()
	const (
		head     = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
		section  = head + "systemPartition: {memoryLimit: 1Gi, namespaces: [kube-system]}\n"
		kubelets = "/var/lib/kubelet/config.yaml"
		settings = "/etc/default/node-partition"
	)
	identity := func(files map[string]string) string {
		root := t.TempDir()
		all := map[string]string{
			"/proc/cmdline": "quiet\n", "/proc/meminfo": "MemTotal: 16777216 kB\n", "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
			"/sys/devices/system/cpu/present": "0-3\n", "/sys/devices/system/cpu/online": "0-3\n", kubelets: section,
		}
		for path, content := range files {
			all[path] = content
		}
		for path, content := range all {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Load(root)
		if err != nil {
			t.Fatal(err)
		}
		return c.Identity()
	}
	want := identity(nil)
	for name, files := range map[string]map[string]string{
		"the same":         nil,
		"another form":     {kubelets: head + "# a remark\nsystemPartition:\n  namespaces:\n  - kube-system\n  memoryLimit:   1Gi\n"},
		"the override":     {kubelets: head, "/etc/kubernetes/node-partition.yaml": section},
		"a CPU offline":    {"/sys/devices/system/cpu/online": "0-2\n"},
		"memory added":     {"/proc/meminfo": "MemTotal: 33554432 kB\n"},
		"kubelet's fields": {kubelets: section + "maxPods: 7\n"},
		"no watch":         {settings: "PARTITION_WATCH=no\n"},
	} {
		if identity(files) != want {
			t.Errorf("%s: another identity", name)
		}
	}
	seen := map[string]string{want: "the same"}
	for name, files := range map[string]map[string]string{
		"limit":      {kubelets: head + "systemPartition: {memoryLimit: 2Gi, namespaces: [kube-system]}\n"},
		"namespaces": {kubelets: head + "systemPartition: {memoryLimit: 1Gi, namespaces: [kube-system, a]}\n"},
		"cpuset":     {kubelets: head + "systemPartition: {memoryLimit: 1Gi, namespaces: [kube-system], cpuset: \"0\"}\n"},
		"no section": {kubelets: head},
		"gate":       {kubelets: section + "featureGates: {NodeSystemPartition: true}\n"},
		"floor":      {settings: "PARTITION_MEMORY_LOW=64Mi\n"},
		"services":   {settings: "SERVICES_DELEGATE=yes\n"},
		"off":        {"/proc/cmdline": "node_partition=0\n"},
	} {
		got := identity(files)
		if other, same := seen[got]; same {
			t.Errorf("%s has the identity of %s", name, other)
		}
		seen[got] = name
	}
}
