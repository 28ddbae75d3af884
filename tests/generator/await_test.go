package generator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/generator/golden"
)

// TestAwait: a configuration is created after the boot. The first run that finds it starts the
// units that waited for it no more. They stay as they were: the service whose own reload that
// run is, and the path unit, whose start the boot may not have come to yet.
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
		waits, partition := strings.Contains(got.Units[starts], path), got.Units["kubepods-system.slice"] != ""
		if got.Status != step.status || waits != step.waits || partition != step.partition {
			t.Errorf("%s: status %d, waits %t, partition %t; want %+v", step.what, got.Status, waits, partition, step)
		}
		if got.Units[service] != first.Units[service] || got.Units[path] != first.Units[path] {
			t.Errorf("%s: a unit changes while it runs: %q", step.what, got.Units)
		}
	}
}

// TestAwaitSection: the kubelet is configured and the section comes later in the boot, for which
// units of other names wait: those for the kubelet's configuration may have run.
func TestAwaitSection(t *testing.T) {
	const (
		path, service = "partition-generator-await-section.path", "partition-generator-await-section.service"
		starts        = "slices.target.d/50-node-partition.conf"
		says          = "waits for /etc/kubernetes/node-partition.yaml"
	)
	root := newRoot(t, "02-no-configuration")
	run(t, root)
	configure(t, root, noSection)
	golden.Flush(t, root)
	first := run(t, root)
	if first.Units[service] == "" || !strings.HasSuffix(first.Units[path], "\n[Path]\nPathExists=/etc/kubernetes/node-partition.yaml\n") ||
		!strings.Contains(first.Units[starts], "\nWants="+path+"\n") || !strings.Contains(first.Messages, says) {
		t.Fatalf("nothing waits for a section: %+v", first)
	}
	write(t, root, overridePath, goodConfig)
	golden.Flush(t, root)
	got := run(t, root)
	if got.Units["kubepods-system.slice"] == "" || strings.Contains(got.Units[starts], path) ||
		got.Units[service] != first.Units[service] || got.Units[path] != first.Units[path] {
		t.Errorf("status %d, %q, %q; want the partition, and the units that waited as they were", got.Status, got.Messages, got.Units)
	}
}

// TestAwaitSaysOnce: the message about what is awaited comes when something begins to wait, and not
// at each reload. After a section was removed nothing does before the next start of slices.target.
func TestAwaitSaysOnce(t *testing.T) {
	const says = "waits for"
	root := newRoot(t, "02-no-configuration")
	reload := func() string {
		golden.Flush(t, root)
		return run(t, root).Messages
	}
	for _, step := range []struct {
		what, config string
		want         bool
	}{
		{"the boot", "", true},
		{"a reload", "", false},
		{"a configuration of the kubelet", noSection, true},
		{"a reload after that", noSection, false},
		{"a section", goodConfig, false},
		{"the section is removed", noSection, false},
	} {
		if step.config != "" {
			configure(t, root, step.config)
		}
		if got := reload(); strings.Contains(got, says) != step.want {
			t.Errorf("%s: %q", step.what, got)
		}
	}
	root = newRoot(t, "01-kubeadm")
	if first := run(t, root); first.Units["kubepods-system.slice"] == "" {
		t.Fatalf("no partition: %+v", first)
	}
	if err := os.MkdirAll(filepath.Join(root, "sys/fs/cgroup/kubepods.slice/kubepods-system.slice"), 0o755); err != nil {
		t.Fatal(err)
	}
	configure(t, root, noSection)
	if got := reload(); strings.Contains(got, says) {
		t.Errorf("the boot's own section is removed: %q", got)
	}
}

// TestLateMount: a file system that the boot need not mount comes, with the section, and goes.
func TestLateMount(t *testing.T) {
	const service, dropin = "partition-generator-late@.service", "etc-kubernetes.mount.d/50-node-partition.conf"
	root := newRoot(t, "173-section-noauto")
	first := run(t, root)
	if first.Units[service] == "" || first.Units[dropin] == "" {
		t.Fatalf("nothing waits for the mount: %+v", first)
	}
	write(t, root, overridePath, goodConfig)
	mounts := "22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 254:16 / /etc/kubernetes rw - ext4 /dev/vdb rw\n"
	write(t, root, "proc/self/mountinfo", mounts)
	golden.Flush(t, root)
	got := run(t, root)
	if got.Units["kubepods-system.slice"] == "" || got.Units[service] != first.Units[service] || got.Units[dropin] != "" {
		t.Errorf("status %d, %q, %q; want the partition, and the service as it was", got.Status, got.Messages, golden.Names(got.Units))
	}
}

// TestIdleAutomount: the section is on a file system that an automount has unmounted since. A
// reload of systemd for any reason does not end the partition, and does not take the kubelet's own
// section.
func TestIdleAutomount(t *testing.T) {
	const (
		rootMount = "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
		idle      = rootMount + "30 22 0:30 / /etc/kubernetes rw - autofs systemd-1 rw\n"
		mounted   = idle + "31 30 254:16 / /etc/kubernetes rw - ext4 /dev/vdb rw\n"
	)
	for name, config := range map[string]string{"no section of the kubelet": noSection, "another section of the kubelet": newConfig} {
		root := newRoot(t, "01-kubeadm")
		configure(t, root, config)
		write(t, root, "etc/fstab", "LABEL=e /etc/kubernetes ext4 noauto,x-systemd.automount,x-systemd.idle-timeout=60\n")
		write(t, root, overridePath, goodConfig)
		write(t, root, "proc/self/mountinfo", mounted)
		first := run(t, root)
		if !strings.Contains(first.Units["kubepods-system.slice"], "SourcePath=/etc/kubernetes/node-partition.yaml\n") {
			t.Fatalf("%s: no partition: %+v", name, first)
		}
		write(t, root, "proc/self/mountinfo", idle)
		if err := os.Remove(filepath.Join(root, overridePath)); err != nil {
			t.Fatal(err)
		}
		golden.Flush(t, root)
		got := run(t, root)
		if got.Status != 1 || got.Units["kubepods-system.slice"] != first.Units["kubepods-system.slice"] ||
			!strings.Contains(got.Messages, "nothing is mounted at its automount point") ||
			!strings.Contains(got.Messages, "keeping the units of the last good one") {
			t.Errorf("%s: idle: status %d, %q, %q; want the partition as it was", name, got.Status, got.Messages, golden.Names(got.Units))
		}
		write(t, root, "proc/self/mountinfo", mounted)
		golden.Flush(t, root)
		if got := run(t, root); got.Status != 0 || strings.Contains(got.Units["kubepods-system.slice"], "SourcePath=/etc/kubernetes/node-partition.yaml\n") {
			t.Errorf("%s: mounted, and the file is gone: %+v", name, got)
		}
	}
}
