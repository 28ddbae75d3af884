package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestRemovalSwitchesOff: the document that the scripts of packages write before a removal switches
// all partitions off. deploy/package tests the scripts.
func TestRemovalSwitchesOff(t *testing.T) {
	t.Parallel()
	const functions = "../../../deploy/package/scripts/functions"
	data, err := os.ReadFile(functions)
	if err != nil {
		t.Fatal(err)
	}
	_, document, begins := strings.Cut(string(data), "<<-END\n")
	document, _, ends := strings.Cut(document, "\tEND\n")
	if !begins || !ends {
		t.Fatalf("%s has no document", functions)
	}
	_, mark, begins := strings.Cut(string(data), "mark='")
	mark, _, ends = strings.Cut(mark, "'")
	if !begins || !ends {
		t.Fatalf("%s has no mark", functions)
	}
	document = strings.NewReplacer("\t", "", "$mark", mark).Replace(document)
	n := fakenode.New(t, fakenode.Configuration(
		"systemPartition:\n  namespaces: [kube-system]\n  memoryLimit: 1Gi\n"+
			"workloadPartitions:\n  telemetry:\n    namespaces: [telemetry]\n    memoryLimit: 1Gi\n"))
	made := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(n.Root, "run/systemd/generator/kubepods-*.slice"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if messages := n.Generate(0); len(made()) != 6 {
		t.Fatalf("%q, %s", made(), messages)
	}
	n.Write(kubeletconfig.TrialPath, document)
	if messages := n.Generate(0); messages != "" || len(made()) > 0 {
		t.Errorf("%q, %s", made(), messages)
	}
}
