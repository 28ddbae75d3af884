package slices

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/generator/golden"
)

// TestLoadUnreadableOutput: Load succeeds, and a warning names the output that it ignores.
func TestLoadUnreadableOutput(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../tests/generator/node")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, golden.ConfigPath), golden.KubeletHead+"systemPartition: {memoryLimit: 512Mi, namespaces: [kube-system]}\n")
	put(t, filepath.Join(root, config.StateDir, unitsDir, LateService, "folder"), "")
	input, err := Load(root, NewOutput(root, filepath.Join(root, generatorDir)))
	if err != nil {
		t.Fatal(err)
	}
	plan := NewPlan(input)
	if len(plan.Config.Partitions) == 0 || len(plan.Units) == 0 {
		t.Errorf("%+v; want a partition", plan)
	}
	if len(plan.Warnings) != 1 || !strings.HasPrefix(plan.Warnings[0], "last output: ") || !strings.HasSuffix(plan.Warnings[0], ", ignoring it") {
		t.Errorf("it warns %q", plan.Warnings)
	}
}

// TestAddServiceSlices: a reserved slice has a weight, because the kubelet needs the controller cpu
// there. It is the configured one, or else the default, protected memory or not.
func TestAddServiceSlices(t *testing.T) {
	reserved := config.Reserved{Slices: []config.ReservedSlice{{Name: "kube.slice"}}}
	for name, test := range map[string]struct {
		services config.Services
		want     []string
	}{
		"nothing":                 {config.Services{}, []string{"CPUWeight=100"}},
		"protected":               {config.Services{Slice: "kube.slice", Protection: cgroups.Protection{Min: 1 << 20}}, []string{"MemoryMin=1048576", "CPUWeight=100"}},
		"weight":                  {config.Services{Slice: "kube.slice", CPUWeight: 300}, []string{"CPUWeight=300"}},
		"weight of another slice": {config.Services{Slice: "other.slice", CPUWeight: 300}, []string{"CPUWeight=100"}},
	} {
		var got []string
		addServiceSlices(func(file string, options ...*unit.UnitOption) {
			for _, o := range options {
				if file == "kube.slice" && (o.Name == "CPUWeight" || o.Name == "MemoryMin") {
					got = append(got, o.Name+"="+o.Value)
				}
			}
		}, &Input{config: &config.Config{Reserved: reserved, Services: test.services}})
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: kube.slice has %q, want %q", name, got, test.want)
		}
	}
}
