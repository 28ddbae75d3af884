package generator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/trialend"
)

// TestRepair: the generator names the right remedy after the problems. It reads the file of the
// node again when that changes, if the units in force watch it. It reads other files at a reload.
func TestRepair(t *testing.T) {
	t.Parallel()
	const (
		kubelets = "/var/lib/kubelet/config.yaml"
		kept     = "the configuration is not applied; keeping the units of the last good one. "
		none     = "no partition is made. "
	)
	good, typo := section("1Gi", "kube-system"), section("1Gy", "kube-system")
	const workload = head + "workloadPartitions: {telemetry: {memoryLimit: 1Gi, namespaces: [telemetry]}}\n"
	settings := func(text string) func(changing) {
		return func(n changing) { n.write(kubeletconfig.SettingsPath, text) }
	}
	edit := func(text string) func(changing) { return func(n changing) { n.edit(text) } }
	kubelet := func(text string) func(changing) { return func(n changing) { n.write(kubelets, text) } }
	reload := changing.reload
	for name, test := range map[string]struct {
		steps []func(changing)
		want  string // the end of what a reload says then
	}{
		"at boot":       {[]func(changing){edit(typo)}, none + repairFile},
		"a broken file": {[]func(changing){edit(head + "systemPartition: [")}, none + repairFile},
		"an empty file": {[]func(changing){edit("")}, none + repairFile},
		"a folder in its place": {[]func(changing){func(n changing) {
			if err := os.MkdirAll(filepath.Join(n.root, kubeletconfig.OverridePath), 0o755); err != nil {
				t.Error(err)
			}
		}}, none + repairFile},
		"a second time":           {[]func(changing){edit(typo), reload}, none + repairFile},
		"after a section":         {[]func(changing){edit(good), reload, edit(typo)}, kept + repairFile},
		"after its removal":       {[]func(changing){edit(good), reload, func(n changing) { n.remove(kubeletconfig.OverridePath) }, reload, edit(typo)}, none + repairFile},
		"of the kubelet's file":   {[]func(changing){kubelet(typo)}, none + repairConfiguration},
		"of both files":           {[]func(changing){edit(typo), settings("SERVICES_SLICE=user.slice\n")}, none + repairConfiguration},
		"of the settings alone":   {[]func(changing){edit(good), reload, settings("SERVICES_SLICE=user.slice\n")}, kept + repairConfiguration},
		"not watched":             {[]func(changing){settings("PARTITION_WATCH=no\n"), edit(typo)}, none + repairConfiguration},
		"not watched any more":    {[]func(changing){edit(good), reload, settings("PARTITION_WATCH=no\n"), edit(typo)}, kept + repairConfiguration},
		"kept units do not watch": {[]func(changing){settings("PARTITION_WATCH=no\n"), edit(good), reload, settings(""), edit(typo)}, kept + repairConfiguration},
		"nor a workload's alone":  {[]func(changing){settings("PARTITION_WATCH=no\n"), edit(workload), reload, settings(""), edit(typo)}, kept + repairConfiguration},
	} {
		n := newChanging(t)
		for _, step := range test.steps {
			step(n)
		}
		if says := n.reloaded(); !strings.HasSuffix(says, ": "+test.want+"\n") {
			t.Errorf("%s: %q; want %q at its end", name, says, test.want)
		}
	}
}

// TestRepairAfterEdit: an edit of the file is refused for another file, which is read at a reload.
func TestRepairAfterEdit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newChanging(t)
		n.edit(section("1Gi", "kube-system"))
		n.reload()
		n.write(kubeletconfig.SettingsPath, "SERVICES_SLICE=user.slice\n")
		n.edit(section("2Gi", "kube-system"))
		if status, says := n.changed(); status != statusSkip || !strings.HasSuffix(says, "what is in force stays. "+repairConfiguration+"\n") {
			t.Errorf("status %d, %q", status, says)
		}
	})
}

// TestRepairOfACause: the configuration is not at fault for units that cannot be written, here
// beside one of another generator.
func TestRepairOfACause(t *testing.T) {
	t.Parallel()
	n := newChanging(t)
	n.edit(section("1Gi", "kube-system"))
	n.write("/run/systemd/generator/kubepods-system.slice", "[Unit]\n")
	var says strings.Builder
	status := Run(n.root, filepath.Join(n.root, "run/systemd/generator"), trialend.Moment{}, NewLog(&says))
	if status != 1 || !strings.HasSuffix(says.String(), "no partition is made. "+repairCause+"\n") {
		t.Errorf("status %d, %q", status, &says)
	}
}
