package fleet

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// archive returns an archive of a release, as far as install.sh needs it.
func archive(t *testing.T) string {
	t.Helper()
	var data bytes.Buffer
	zipped := gzip.NewWriter(&data)
	w := tar.NewWriter(zipped)
	for _, f := range []struct{ path, text string }{
		{"usr/bin/partition-monitor", "monitor"},
		{"usr/lib/systemd/system-generators/partition-generator", "generator"},
		{"usr/lib/systemd/system/partition-monitor.service", read(t, "../../units/partition-monitor.service")},
	} {
		header := tar.Header{Name: "node-partition-0.1.0/" + f.path, Mode: 0o644, Size: int64(len(f.text))}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return data.String()
}

// TestMachineConfigInstall: install.sh of the MachineConfig puts the programs where systemd finds
// them, changes nothing with another sum, and nothing at the next boot.
func TestMachineConfigInstall(t *testing.T) {
	t.Parallel()
	n := newShellNode(t)
	n.write("archive", archive(t), 0o644)
	n.tool("curl", `while [ "$1" != -o ]; do shift; done; cp `+n.root+`/archive "$2"`)
	n.tool("uname", "echo x86_64")
	n.tool("restorecon", "")
	script := read(t, "machineconfig/install.sh")
	if out, err := n.sh(script); err == nil || strings.Contains(n.calls(), "systemctl") {
		t.Errorf("an archive with another sum: %v, %s", err, out)
	}
	if _, err := os.Stat(n.root + "/etc"); !os.IsNotExist(err) {
		t.Errorf("an archive with another sum was installed: %v", err)
	}
	script = strings.Replace(script, zeros, sumOf(archive(t)), 1)
	if out, err := n.sh(script); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	calls := n.calls()
	if !strings.HasSuffix(calls, "systemctl daemon-reload\nsystemctl start slices.target\nsystemctl --no-block try-restart partition-monitor.service\n") {
		t.Error(calls)
	}
	for path, mode := range map[string]os.FileMode{
		"usr/local/bin/partition-monitor":                   0o755,
		"etc/systemd/system-generators/partition-generator": 0o755,
		"etc/systemd/system/partition-monitor.service":      0o644,
	} {
		if info, err := os.Stat(filepath.Join(n.root, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	unit := read(t, n.root+"/etc/systemd/system/partition-monitor.service")
	if !strings.Contains(unit, "\nExecStart=/usr/local/bin/partition-monitor run") || strings.Contains(unit, "/usr/bin/partition-monitor") {
		t.Error(unit)
	}
	if out, err := n.sh(script); err != nil || strings.Contains(n.calls(), "curl") {
		t.Errorf("the next boot installs again: %v, %s", err, out)
	}
}

// TestRollScript: roll.sh of the Plan gives a node package and section, changes nothing when it is
// run again, and goes back from each step that fails.
func TestRollScript(t *testing.T) {
	t.Parallel()
	steps := []string{"install", "try", "status", "check", "keep"}
	f := newFleet(t, append([]string{"well"}, steps...), nil)
	script := strings.Replace(read(t, "k3s/roll.sh"), zeros, sumOf("0.1.0-1"), 1)
	section := "systemPartition: {namespaces: [kube-system]}\n"
	roll := func(node, offered string) (string, error) {
		f.write(node, "offered", offered)
		f.write(node, "roll/section.yaml", section)
		cmd := exec.Command("/bin/sh", "-ec", script, "roll.sh", f.root(node)+"/roll")
		cmd.Env = append(os.Environ(), "PATH="+f.root(node)+"/bin:"+os.Getenv("PATH"), "NODE_PARTITION_ROOT="+f.root(node))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := roll("well", "0.1.0-1"); err != nil || f.has("well", file) != section || f.has("well", "version") != "0.1.0-1" {
		t.Errorf("%v\n%s", err, out)
	}
	f.forget()
	if out, err := roll("well", "0.1.0-1"); err != nil || f.changes("well") != nil || !strings.Contains(out, "nothing to do") {
		t.Errorf("a second run: %v, %q\n%s", err, f.changes("well"), out)
	}
	for _, step := range steps {
		f.write(step, "fail/"+step, "")
		out, err := roll(step, "0.1.0-1")
		if err == nil || !strings.Contains(out, "no "+step+" today") || !strings.HasSuffix(out, "package and section are as before\n") {
			t.Errorf("%s: %v\n%s", step, err, out)
		}
		for _, path := range []string{"version", file, "run/node-partition/trial.yaml"} {
			if got := f.has(step, path); got != "" {
				t.Errorf("%s has %s: %q", step, path, got)
			}
		}
	}

	for _, refused := range []struct {
		message, version, section, offered, trial string
	}{
		{message: "a trial runs", version: "0.1.0-1", section: "another", trial: "x"},
		{message: "would both change", version: "0.0.9-1", section: "another"},
		{message: "which the way back needs", version: "0.0.9-1", section: section},
		{message: "it would apply at once", section: section},
		{message: "has another sum", offered: "0.1.1-1"},
	} {
		f.forget()
		removeAll(t, f.root("well"), "version", file, "run", "var")
		for path, text := range map[string]string{
			"version": refused.version, file: refused.section, "run/node-partition/trial.yaml": refused.trial,
		} {
			if text != "" {
				f.write("well", path, text)
			}
		}
		out, err := roll("well", cmp.Or(refused.offered, "0.1.0-1"))
		if err == nil || !strings.Contains(out, refused.message) || f.changes("well") != nil {
			t.Errorf("%s: %v, %q\n%s", refused.message, err, f.changes("well"), out)
		}
	}
}

// removeAll removes paths of a node.
func removeAll(t *testing.T, root string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
}
