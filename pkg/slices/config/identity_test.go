package config

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
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
		all := map[string]string{kubelets: section}
		maps.Copy(all, files)
		c, err := Load(nodeOf(t, all))
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

// TestSectionDigest: the digest of a file of ours is of its bytes. In the kubelet's own
// configuration, fields of the kubelet and the order of keys make no difference.
func TestSectionDigest(t *testing.T) {
	t.Parallel()
	const (
		head     = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
		section  = head + "systemPartition: {memoryLimit: 1Gi, namespaces: [kube-system]}\n"
		kubelets = "/var/lib/kubelet/config.yaml"
		ours     = "/etc/kubernetes/node-partition.yaml"
		trial    = "/run/node-partition/trial.yaml"
	)
	digest := func(files map[string]string) string {
		t.Helper()
		c, err := Load(nodeOf(t, files))
		if err != nil {
			t.Fatal(err)
		}
		return c.SectionDigest()
	}
	sum := func(text string) string {
		d := sha256.Sum256([]byte(text))
		return hex.EncodeToString(d[:])
	}
	canonical := sum(`{"system":{"memoryLimit":"1Gi","namespaces":["kube-system"]}}`)
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"ours":                {map[string]string{ours: section}, sum(section)},
		"ours, with a remark": {map[string]string{ours: section + "# why\n"}, sum(section + "# why\n")},
		"a trial":             {map[string]string{ours: section, trial: section + "# tried\n"}, sum(section + "# tried\n")},
		"the kubelet's":       {map[string]string{kubelets: section}, canonical},
		"the kubelet's, in another form": {
			map[string]string{kubelets: head + "maxPods: 7\nsystemPartition:\n  namespaces: [kube-system]\n  memoryLimit: 1Gi\n"}, canonical,
		},
		"the kubelet's, in JSON": {
			map[string]string{kubelets: `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1",` +
				`"systemPartition":{"namespaces": ["kube-system"], "memoryLimit": "1Gi"}}`}, canonical,
		},
		"none":            {map[string]string{kubelets: head}, ""},
		"ours is empty":   {map[string]string{kubelets: section, ours: head + "systemPartition: {}\n"}, ""},
		"switched off":    {map[string]string{ours: section, "/proc/cmdline": "node_partition=0\n"}, ""},
		"one of another":  {map[string]string{kubelets: section, ours: head + "workloadPartitions: {a: {memoryLimit: 64Mi}}\n"}, sum(head + "workloadPartitions: {a: {memoryLimit: 64Mi}}\n")},
		"not ours at all": {map[string]string{kubelets: section, ours: head}, canonical},
	} {
		if got := digest(test.files); got != test.want {
			t.Errorf("%s: %s; want %s", name, got, test.want)
		}
	}
}

// nodeOf returns a folder with the files of a node, and these.
func nodeOf(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{
		"/proc/cmdline": "quiet\n", "/proc/meminfo": "MemTotal: 16777216 kB\n", "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
		"/sys/devices/system/cpu/present": "0-3\n", "/sys/devices/system/cpu/online": "0-3\n",
	}
	maps.Copy(all, files)
	testkit.WriteFiles(t, root, all)
	return root
}
