package generator

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"nodepartition/pkg/slices/decision"
	"nodepartition/tests/generator/golden"
	"nodepartition/tests/needs"
)

const configPath = golden.ConfigPath

const (
	kubeletHead = golden.KubeletHead
	goodConfig  = kubeletHead + "systemPartition: {memoryLimit: 1Gi, cpuset: \"0-1\", namespaces: [kube-system]}\n"
	newConfig   = kubeletHead + "systemPartition: {memoryLimit: 2Gi, namespaces: [kube-system]}\n"
	badConfig   = kubeletHead + "systemPartition: {memoryLimit: 2 GB, namespaces: [kube-system]}\n"
	noSection   = kubeletHead
	threeConfig = goodConfig + "workloadPartitions:\n  batch: {memoryLimit: 1Gi, namespaces: [batch]}\n" +
		"  node-agents: {cpuset: \"3\", exclusive: true, namespaces: [agents]}\n"
)

// killPoints lists the system calls before which the generator is killed: all with which it changes
// files.
var killPoints = []string{"mkdirat", "openat", "write", "symlinkat", "renameat", "unlinkat", "flock", "close"}

// TestKilledAnywhere kills the generator before each of its system calls in turn. Afterwards
// systemd finds the whole set of units or none. The next run, also one with a broken configuration,
// finds all it needs. Only the killed run is a process: the runs before and after it, which are
// three times as many, need none.
func TestKilledAnywhere(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after string // configurations of the run before the killed one, and of the killed one
	}{
		{"at boot", "", goodConfig},
		{"at a reload without a change", goodConfig, goodConfig},
		{"at a reload with a changed limit", goodConfig, newConfig},
		{"at a reload with a broken file", goodConfig, badConfig},
		{"at a reload without the section", goodConfig, noSection},
		{"at a reload with two more partitions", goodConfig, threeConfig},
		{"at a reload with two partitions fewer", threeConfig, goodConfig},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// The results of complete runs.
			var before, after map[string]string
			var beforeDecided, afterDecided string
			root := newRootInMemory(t)
			if test.before != "" {
				configure(t, root, test.before)
				before, beforeDecided = golden.Run(t, root, inProcess).Units, decided(t, root)
				golden.Flush(t, root)
			}
			configure(t, root, test.after)
			after, afterDecided = golden.Run(t, root, inProcess).Units, decided(t, root)
			killed, partial := 0, 0
			for call, n := 0, 1; call < len(killPoints); n++ {
				root := newRootInMemory(t)
				if test.before != "" {
					configure(t, root, test.before)
					golden.Run(t, root, inProcess)
					golden.Flush(t, root)
				}
				configure(t, root, test.after)
				at := fmt.Sprintf("killed before %s number %d", killPoints[call], n)
				if !runKilled(t, root, killPoints[call], n) {
					remove(t, root)
					call, n = call+1, 0
					continue
				}
				killed++
				if seen := golden.ReadUnits(t, root); len(seen) > 0 && !maps.Equal(seen, after) {
					t.Fatalf("%s: systemd sees\n%q\nwant nothing or\n%q", at, golden.Names(seen), golden.Names(after))
				}
				if links(t, root) > 0 {
					partial++
				}
				// Valid units are not lost: with a broken file the old set stays or, once that is complete, the
				// new one. A removed section stays removed, or is still there, but never in part.
				golden.Flush(t, root)
				configure(t, root, badConfig)
				kept := golden.Run(t, root, inProcess).Units
				said := decided(t, root)
				if (!maps.Equal(kept, before) || said != beforeDecided) && (!maps.Equal(kept, after) || said != afterDecided) {
					t.Fatalf("%s: a broken file afterwards keeps\n%q, with the decision %s", at, golden.Names(kept), said)
				}
				golden.Flush(t, root)
				configure(t, root, newConfig)
				if next := golden.Run(t, root, inProcess); next.Status != 0 || len(next.Units) == 0 {
					t.Fatalf("%s: the next run: %+v", at, next)
				}
				remove(t, root)
			}
			t.Logf("killed at %d points, %d of them with links made", killed, partial)
			if killed < 20 || test.after != noSection && partial < 3 {
				t.Errorf("killed at %d points, %d of them with links made: too few to show anything", killed, partial)
			}
		})
	}
}

// newRootInMemory creates the root of a node. Where this machine has a file system in memory it is
// there, as /run is on a node: the thousand roots of TestKilledAnywhere take several times as long
// on a disk that others write to.
func newRootInMemory(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("/dev/shm", "partition-generator")
	if err != nil {
		return newRoot(t, "01-kubeadm")
	}
	t.Cleanup(func() { remove(t, root) })
	if err := named(t, "01-kubeadm").WriteNode(root, "."); err != nil {
		t.Fatal(err)
	}
	golden.Flush(t, root)
	return root
}

func remove(t *testing.T, root string) {
	t.Helper()
	if err := os.RemoveAll(root); err != nil {
		t.Error(err)
	}
}

// decided returns the text of the decision that the monitor reads; empty for none.
func decided(t *testing.T, root string) string {
	t.Helper()
	d, err := decision.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		return ""
	}
	text, err := d.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestLinksInADirectoryThatIsNotEmptied: a second run over its own output, as by hand, does not
// conflict with it.
func TestLinksInADirectoryThatIsNotEmptied(t *testing.T) {
	root := newRoot(t, "01-kubeadm")
	first := run(t, root)
	golden.Compare(t, first, run(t, root))
}

// TestConflict: another generator has written a file of the same name. Half a set must not stay
// behind.
func TestConflict(t *testing.T) {
	root := newRoot(t, "01-kubeadm")
	foreign := filepath.Join(golden.OutputDir(root), "kubepods-system.slice")
	if err := os.WriteFile(foreign, []byte("[Slice]\nMemoryMax=1G\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := run(t, root)
	if got.Status != 1 || !strings.Contains(got.Messages, "kubepods-system.slice: made by something else already") {
		t.Errorf("got status %d and %q", got.Status, got.Messages)
	}
	if len(got.Units) != 1 || got.Units["kubepods-system.slice"] != "[Slice]\nMemoryMax=1G\n" {
		t.Errorf("units: %q; want the foreign one alone", got.Units)
	}
}

// TestStateCannotBeWritten: a partition that is written file by file is better than none.
func TestStateCannotBeWritten(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, root string) result{
		"a file in its place": func(t *testing.T, root string) result {
			t.Helper()
			if err := os.WriteFile(filepath.Join(root, "run/node-partition"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			return run(t, root)
		},
		// As with SELinux, if it allows a generator to write only in the generators' directories.
		"permission denied": func(t *testing.T, root string) result {
			t.Helper()
			var stderr bytes.Buffer
			cmd := traced(t, root, "mkdirat", "error=EACCES:when=1")
			cmd.Stderr = &stderr
			if err := cmd.Run(); err != nil {
				t.Errorf("%v: %s", err, stderr.String())
			}
			return result{Messages: stderr.String(), Units: golden.ReadUnits(t, root)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t, "01-kubeadm")
			good := named(t, "01-kubeadm").Want
			got := run(t, root)
			if got.Status != 0 || !strings.Contains(got.Messages, "/run/node-partition") || !strings.Contains(got.Messages, "writing the units one by one") {
				t.Errorf("status %d, it says %q", got.Status, got.Messages)
			}
			if links(t, root) > 0 || !slices.Equal(golden.Names(got.Units), golden.Names(good.Units)) {
				t.Errorf("units %q, want %q as files", golden.Names(got.Units), golden.Names(good.Units))
			}
			for path, content := range good.Units {
				content = strings.ReplaceAll(content, "/run/node-partition/units/.apply", "/run/systemd/generator/.apply")
				if got.Units[path] != content {
					t.Errorf("%s:\n%s\nwant\n%s", path, got.Units[path], content)
				}
			}
			verify(t, root)
		})
	}
}

// TestReload follows an operator's changes to a running node.
func TestReload(t *testing.T) {
	root := newRoot(t, "01-kubeadm")
	step := func(config string, wantStatus int) result {
		t.Helper()
		configure(t, root, config)
		golden.Flush(t, root)
		got := run(t, root)
		if got.Status != wantStatus {
			t.Fatalf("status %d, want %d: %s", got.Status, wantStatus, got.Messages)
		}
		return got
	}
	good := step(goodConfig, 0)
	broken := step(badConfig, 1)
	if !maps.Equal(broken.Units, good.Units) {
		t.Errorf("a broken file changes the units: %q", broken.Units)
	}
	if !strings.Contains(broken.Messages, "keeping the units of the last good one") {
		t.Errorf("a broken file: it says %q", broken.Messages)
	}
	if again := step(badConfig, 1); !maps.Equal(again.Units, good.Units) {
		t.Errorf("a broken file changes the units at the second reload: %q", again.Units)
	}
	repaired := step(newConfig, 0)
	if !strings.Contains(repaired.Units["kubepods-system.slice"], "MemoryMax=2147483648\n") {
		t.Errorf("a repaired file does not take effect: %q", repaired.Units)
	}
	// The units that apply changes stay for the rest of the boot, and so does the drop-in that keeps a
	// shutdown from stopping slices of pods first. A section is awaited as on a node that never had
	// one.
	stays := []string{
		"kubepods-system-.slice.d/50-node-partition.conf", "kubepods-system.slice.d/50-node-partition.conf",
		"kubepods.slice.d/50-node-partition.conf", "partition-generator-apply.path", "partition-generator-apply.service",
		"partition-generator-await-section.path", "partition-generator-await-section.service", "partition-generator-read.service",
		"partition-generator-watch.path", "partition-generator-watch.service", "slices.target.d/50-node-partition.conf",
	}
	for _, off := range []result{step(noSection, 0), step(badConfig, 1), step(noSection, 0)} {
		if !slices.Equal(golden.Names(off.Units), stays) {
			t.Errorf("units after the section was removed: %q", golden.Names(off.Units))
		}
	}
}

// TestReloadOneInvalid: one invalid partition makes the whole configuration invalid, and all
// partitions of the last good one stay.
func TestReloadOneInvalid(t *testing.T) {
	root := newRoot(t, "01-kubeadm")
	configure(t, root, threeConfig)
	good := run(t, root)
	if _, ok := good.Units["kubepods-batch.slice"]; good.Status != 0 || !ok {
		t.Fatalf("status %d, units %q: %s", good.Status, golden.Names(good.Units), good.Messages)
	}
	golden.Flush(t, root)
	configure(t, root, strings.Replace(threeConfig, "batch: {memoryLimit: 1Gi", "batch: {memoryLimit: 0", 1))
	broken := run(t, root)
	if broken.Status != 1 || !strings.Contains(broken.Messages, "workloadPartitions.batch.memoryLimit") {
		t.Errorf("status %d: %s; want 1, and the field", broken.Status, broken.Messages)
	}
	if !maps.Equal(broken.Units, good.Units) {
		t.Errorf("one invalid partition changes the units: %q", broken.Units)
	}
}

// TestApply: while the partition is active, every run raises the flag that ApplyPath waits for,
// because the generator cannot see what systemd has loaded, and perhaps lost again. A partition
// that is not active has nothing to apply.
func TestApply(t *testing.T) {
	root := newRoot(t, "01-kubeadm")
	flag := filepath.Join(root, "run/node-partition/units/.apply")
	step := func(what, config string, want bool) {
		t.Helper()
		configure(t, root, config)
		golden.Flush(t, root)
		run(t, root)
		if _, err := os.Stat(flag); (err == nil) != want {
			t.Errorf("%s: flag: %v, want it: %t", what, err, want)
		}
		if _, err := os.Lstat(filepath.Join(golden.OutputDir(root), ".apply")); err == nil {
			t.Errorf("%s: the flag is linked to", what)
		}
		// ApplyService removes it.
		if err := os.RemoveAll(flag); err != nil {
			t.Fatal(err)
		}
	}
	step("boot", goodConfig, false)
	step("a change before the slice is started", newConfig, false)
	step("a broken file before the slice is started", badConfig, false)
	if err := os.MkdirAll(filepath.Join(root, "sys/fs/cgroup/kubepods.slice/kubepods-system.slice"), 0o755); err != nil {
		t.Fatal(err)
	}
	step("a change", goodConfig, true)
	step("no change", goodConfig, true)
	step("a broken file", badConfig, true)
	units := filepath.Join(root, "run/node-partition/units")
	if err := os.Rename(units, units+".old"); err != nil {
		t.Fatal(err)
	}
	step("a broken file after a killed run", badConfig, true)
	step("the end", noSection, true)
	step("after the end", noSection, true)
	step("the return", goodConfig, true)
}

// TestAnotherDirectory: a run by hand, or by systemd-analyze verify --generators, writes plain
// files, and nothing changes for systemd.
func TestAnotherDirectory(t *testing.T) {
	root := newRoot(t, "01-kubeadm")
	live := run(t, root)
	configure(t, root, newConfig)
	other := t.TempDir()
	look := func() {
		t.Helper()
		cmd := command(root)
		cmd.Args = []string{program, other}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	look()
	look() // over its own output
	data, err := os.ReadFile(filepath.Join(other, "kubepods-system.slice"))
	if err != nil || !strings.Contains(string(data), "MemoryMax=2147483648\n") {
		t.Errorf("%v: %s", err, data)
	}
	if info, err := os.Lstat(filepath.Join(other, "kubepods-system.slice")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v: want a plain file", info, err)
	}
	if now := golden.ReadUnits(t, root); !maps.Equal(now, live.Units) {
		t.Errorf("systemd's units changed: %q", now)
	}
	configure(t, root, noSection)
	look()
	if now := golden.ReadUnits(t, root); !maps.Equal(now, live.Units) {
		t.Errorf("systemd's units changed: %q", now)
	}
}

// TestFullRun: if the new units cannot be written, the last good ones stay.
func TestFullRun(t *testing.T) {
	root := newRoot(t, "01-kubeadm")
	before := run(t, root)
	golden.Flush(t, root)
	configure(t, root, newConfig)
	// The first folder that it creates is the one for the new units.
	cmd := traced(t, root, "mkdirat", "error=ENOSPC:when=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%v; want a failure", err)
	}
	got := result{Status: exit.ExitCode(), Messages: stderr.String(), Units: golden.ReadUnits(t, root)}
	if got.Status != 1 || !maps.Equal(got.Units, before.Units) || !strings.Contains(got.Messages, "no space left on device") ||
		!strings.Contains(got.Messages, "keeping the units of the last good one") {
		t.Errorf("got %+v", got)
	}
}

// TestLateVar: the unit that reloads systemd once /var is mounted stays as it is in the run that
// its own reload causes, and for the rest of the boot. That run adds the units of the partition.
func TestLateVar(t *testing.T) {
	const late = "partition-generator-late.service"
	root := newRoot(t, "72-late-var-fstab")
	first := run(t, root)
	if first.Units[late] == "" {
		t.Fatalf("no %s: %+v", late, first)
	}
	configure(t, root, goodConfig)
	mounts := "22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 254:16 / /var rw - ext4 /dev/vdb rw\n"
	if err := os.WriteFile(filepath.Join(root, "proc/self/mountinfo"), []byte(mounts), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		golden.Flush(t, root)
		next := run(t, root)
		if next.Units[late] != first.Units[late] {
			t.Errorf("%s changed while it runs:\n%s\nbefore\n%s", late, next.Units[late], first.Units[late])
		}
		if next.Units["kubepods-system.slice"] == "" {
			t.Errorf("no partition once /var is mounted: %+v", next)
		}
	}
	golden.Flush(t, root)
	configure(t, root, noSection)
	if off := run(t, root); len(off.Units) != 13 || off.Units[late] == "" {
		t.Errorf("without a section: %q; want the late unit, what starts it, what applies changes and reads edits, three drop-ins of slices, and what waits for a section",
			golden.Names(off.Units))
	}
	verify(t, root)
}

func configure(t *testing.T, root, config string) {
	t.Helper()
	path := filepath.Join(root, configPath)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runKilled runs the generator and kills it with SIGKILL when it enters its n-th system call of
// that name. It reports whether the generator was killed.
func runKilled(t *testing.T, root, call string, n int) bool {
	t.Helper()
	return runCommandKilled(t, command(root), call, n)
}

// runCommandKilled is runKilled for any command line of the program.
func runCommandKilled(t *testing.T, cmd *exec.Cmd, call string, n int) bool {
	t.Helper()
	cmd.Args = append([]string{killat, call, strconv.Itoa(n), program}, cmd.Args[1:]...)
	cmd.Path = killat
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status := exit.Sys().(syscall.WaitStatus)
		// killat ends as the generator does.
		if status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true
		}
		if exit.ExitCode() == 1 {
			return false // a broken configuration
		}
	}
	if err != nil {
		t.Fatalf("%s number %d: %v\n%s", call, n, err, out)
	}
	return false
}

// traced returns the generator under strace, which manipulates one of its system calls: see
// --inject of strace(1).
func traced(t *testing.T, root, call, injection string) *exec.Cmd {
	t.Helper()
	strace := needs.Program(t, "strace", "strace")
	cmd := command(root)
	cmd.Args = append([]string{"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e", "inject=" + call + ":" + injection, program}, cmd.Args[1:]...)
	cmd.Path = strace
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	return cmd
}

// links counts the links in the generator's directory, valid or not.
func links(t *testing.T, root string) int {
	t.Helper()
	n := 0
	entries, err := os.ReadDir(golden.OutputDir(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink != 0 {
			n++
		}
	}
	return n
}
