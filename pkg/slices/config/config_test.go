package config

import (
	"os"
	"testing"

	"node-partition.io/node-partition/tests/generator/golden"
)

// TestLoadWith: the partition follows a section that is in no file of the node yet. The
// configuration in force does not change.
func TestLoadWith(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../../tests/generator/node")); err != nil {
		t.Fatal(err)
	}
	section := golden.KubeletHead + "systemPartition: {memoryLimit: 512Mi, namespaces: [kube-system]}\n"
	config, err := LoadWith(root, "mine.yaml", []byte(section))
	if err != nil || config.System() == nil || config.System().Limit != 512<<20 {
		t.Errorf("%+v, %v; want a partition of 512Mi", config.Partitions, err)
	}
	if config, err = Load(root); err != nil || config.sections != nil {
		t.Errorf("%s, %v; want that nothing is in force", config.sections, err)
	}
}
