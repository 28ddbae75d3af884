package slices

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
