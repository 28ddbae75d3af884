package generator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodepartition/tests/generator/golden"
)

// TestAwait: a configuration is created after the boot. The first run that finds it removes the
// units that waited for it. The service whose own reload that run is stays as it was.
func TestAwait(t *testing.T) {
	const path, service, starts = "partition-generator-await.path", "partition-generator-await.service", "slices.target.d/50-node-partition.conf"
	root := newRoot(t, "02-no-configuration")
	first := run(t, root)
	if first.Units[service] == "" || !strings.Contains(first.Units[path], "\nPathExists=/"+configPath+"\n") ||
		!strings.Contains(first.Units[starts], "\nWants="+path+"\n") {
		t.Fatalf("nothing waits for a configuration: %+v", first)
	}
	for _, step := range []struct {
		what, config     string
		status           int
		waits, partition bool
	}{
		{"a file that is being written", "", 1, true, false},
		{"a section", goodConfig, 0, false, true},
		{"a broken section", badConfig, 1, false, true},
		{"no section", noSection, 0, false, false},
	} {
		configure(t, root, step.config)
		golden.Flush(t, root)
		got := run(t, root)
		waits, partition := got.Units[path] != "", got.Units["kubepods-system.slice"] != ""
		if got.Status != step.status || waits != step.waits || partition != step.partition {
			t.Errorf("%s: status %d, waits %t, partition %t; want %+v", step.what, got.Status, waits, partition, step)
		}
		if got.Units[service] != first.Units[service] {
			t.Errorf("%s: the service changes while it runs: %q", step.what, got.Units[service])
		}
	}
}

// TestAwaitKubeconfig: a kubeconfig in the place of OpenShift's configuration, as kubeadm init has
// just created it, is not a configuration.
func TestAwaitKubeconfig(t *testing.T) {
	root := newRoot(t, "11-kubeconfig-is-no-configuration")
	if err := os.Remove(filepath.Join(root, "etc/kubernetes/kubelet/kubelet-config.json")); err != nil {
		t.Fatal(err)
	}
	got := run(t, root)
	if path := got.Units["partition-generator-await.path"]; path == "" || strings.Contains(path, "kubelet.conf\n") {
		t.Errorf("status %d, %q; it waits for %q, want all but kubelet.conf", got.Status, got.Messages, path)
	}
}
