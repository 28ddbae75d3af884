package slices

import (
	"os"
	"path/filepath"
	"testing"

	"nodepartition/tests/generator/golden"
)

// TestLoadWith: the plan of a section that is in no file of the node yet. What is in force stays as it is.
func TestLoadWith(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../tests/generator/node")); err != nil {
		t.Fatal(err)
	}
	output := NewOutput(root, filepath.Join(root, generatorDir))
	section := golden.KubeletHead + "systemPartition: {memoryLimit: 512Mi, namespaces: [kube-system]}\n"
	input, err := LoadWith(root, output, "mine.yaml", []byte(section))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(input)
	if err != nil || plan.Partition == nil || plan.Partition.MemoryLimit != 512<<20 {
		t.Errorf("%+v, %v; want a partition of 512Mi", plan.Partition, err)
	}
	if input, err = Load(root, output); err != nil || input.section != nil {
		t.Errorf("%s, %v; want that nothing is in force", input.section, err)
	}
}
