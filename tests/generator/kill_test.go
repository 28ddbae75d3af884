package generator

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/decision"
	"node-partition.io/node-partition/tests/generator/golden"
	"node-partition.io/node-partition/tests/testkit"
)

const configPath = golden.ConfigPath

const (
	kubeletHead = golden.KubeletHead
	goodConfig  = kubeletHead + "systemPartition: {memoryLimit: 1Gi, cpuset: \"0-1\", namespaces: [kube-system]}\n"
	newConfig   = kubeletHead + "systemPartition: {memoryLimit: 2Gi, namespaces: [kube-system]}\n"
	badConfig   = kubeletHead + "systemPartition: {memoryLimit: 2 GB, namespaces: [kube-system]}\n"
	noSection   = kubeletHead
	workloads   = goodConfig + "workloadPartitions:\n"
	batch       = "  batch: {memoryLimit: 1Gi, namespaces: [batch]}\n"
	agents      = "  node-agents: {cpuset: \"3\", exclusive: true, namespaces: [agents]}\n"
	threeConfig = workloads + batch + agents
	// sharedConfig has three partitions, and none has CPUs for itself.
	sharedConfig = workloads + batch + "  node-agents: {cpuset: \"3\", namespaces: [agents]}\n"
	// changedConfig has another limit of batch, and another cpuset of node-agents.
	changedConfig = workloads + "  batch: {memoryLimit: 2Gi, namespaces: [batch]}\n" +
		"  node-agents: {cpuset: \"2-3\", exclusive: true, namespaces: [agents]}\n"
	agentsConfig = workloads + agents
	// gateConfig has no units while nothing is watched. reservedConfig has a slice for services alone.
	gateConfig     = kubeletHead + "featureGates: {NodeSystemPartition: true}\n"
	reservedConfig = gateConfig + "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube.slice\n"
	badWorkload    = gateConfig + "workloadPartitions: {batch: {memoryLimit: 2 GB}}\n"
)

// killPoints lists the system calls before which the generator is killed: all with which it changes
// files.
var killPoints = []string{"mkdirat", "openat", "write", "symlinkat", "renameat", "unlinkat"}

// point is a place where a program is killed: before its n-th system call of a name.
type point struct {
	call string
	n    int
}

func (p point) String() string { return fmt.Sprintf("killed before %s number %d", p.call, p.n) }

// atEachPoint calls try for one point after the other, and returns their number. try reports
// whether the program was killed there. If it was not, it has no more calls of that name.
func atEachPoint(try func(point) bool) int {
	killed := 0
	for _, call := range killPoints {
		for n := 1; try(point{call, n}); n++ {
			killed++
		}
	}
	return killed
}

// TestKilledAnywhere kills the generator before each of its system calls in turn. Afterwards
// systemd finds the whole set of units or none. The same run once more leaves what it would have
// left undisturbed. A run with a broken configuration finds all it needs. Only the killed run is a
// process. Those after it are none, and the run before it is copied: there are 1400 points.
func TestKilledAnywhere(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after string // configurations of the run before the killed one, and of the killed one
		broken        string // the configuration of the run after it; badConfig if it is empty
	}{
		{"at boot with three partitions", "", threeConfig, ""},
		{"at a reload without a change", goodConfig, goodConfig, ""},
		{"at a reload with a broken file", goodConfig, badConfig, ""},
		{"at a reload without the section", goodConfig, noSection, ""},
		{"at a reload with two more partitions", goodConfig, threeConfig, ""},
		{"at a reload with another limit and another cpuset of two of three", threeConfig, changedConfig, ""},
		{"at a reload with exclusive turned on", sharedConfig, threeConfig, ""},
		{"at a reload with exclusive turned off", threeConfig, sharedConfig, ""},
		{"at a reload with one of three partitions fewer", threeConfig, agentsConfig, ""},
		{"at a reload without the slices for services", reservedConfig, gateConfig, badWorkload},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// A node after the run before the killed one, and that run's result.
			root := newRootInMemory(t)
			broken := badConfig
			if test.broken != "" {
				broken = test.broken
				write(t, root, kubeletconfig.SettingsPath, kubeletconfig.WatchKey+"="+kubeletconfig.WatchOff+"\n")
			}
			var before outcome
			if test.before != "" {
				before = decide(t, root, test.before)
				startSlices(t, root, before.Units)
			} else {
				// A broken file at boot has no units but those that wait for another one.
				before = decide(t, newRootInMemory(t), badConfig)
			}
			configure(t, root, test.after)
			prepared := copyRoot(t, root)
			after := decide(t, root, test.after)
			undisturbed := tree(t, root)
			partial := 0
			killed := atEachPoint(func(at point) bool {
				root := copyRoot(t, prepared)
				defer remove(t, root)
				if !runKilled(t, root, at) {
					return false
				}
				if seen := golden.ReadUnits(t, root); len(seen) > 0 && !maps.Equal(seen, after.Units) {
					t.Fatalf("%s: systemd sees\n%q\nwant nothing or\n%q", at, golden.Names(seen), golden.Names(after.Units))
				}
				if links(t, root) > 0 {
					partial++
				}
				again := copyRoot(t, root)
				defer remove(t, again)
				if next := decide(t, again, test.after); !next.equal(after) {
					t.Fatalf("%s: the same run once more: %+v; want %+v", at, next, after)
				}
				if left := tree(t, again); !maps.Equal(left, undisturbed) {
					t.Fatalf("%s: the same run once more leaves\n%q\nwant\n%q", at, left, undisturbed)
				}
				// Valid units are not lost: with a broken file the old set stays or, once that is complete, the
				// new one. A removed section stays removed, or is still there, but never in part.
				if kept := decide(t, root, broken); !kept.equal(before) && !kept.equal(after) {
					t.Fatalf("%s: a broken file afterwards keeps\n%q, with the decision %s",
						at, golden.Names(kept.Units), kept.decision)
				}
				return true
			})
			t.Logf("killed at %d points, %d of them with links made", killed, partial)
			if killed < 20 || test.after != noSection && test.after != gateConfig && partial < 3 {
				t.Errorf("killed at %d points, %d of them with links made: too few to show anything", killed, partial)
			}
		})
	}
}

// outcome is the result of a run, with the decision that the monitor reads.
type outcome struct {
	result
	decision string
}

// equal reports whether systemd and the monitor read the same.
func (o outcome) equal(other outcome) bool {
	return maps.Equal(o.Units, other.Units) && o.decision == other.decision
}

// decide is a boot or a reload with a configuration, without a process.
func decide(t *testing.T, root, config string) outcome {
	t.Helper()
	got := reload(t, root, config, inProcess)
	return outcome{got, decided(t, root)}
}

// reload is a reload of systemd with a configuration: the generator's directory is empty at first.
func reload(t *testing.T, root, config string, program golden.Program) result {
	t.Helper()
	configure(t, root, config)
	golden.Flush(t, root)
	return golden.Run(t, root, program)
}

// startSlices makes the cgroups of the slices among units, with processes.
func startSlices(t *testing.T, root string, units map[string]string) {
	t.Helper()
	for name := range units {
		if strings.HasSuffix(name, ".slice") {
			write(t, root, filepath.Join(partition.CgroupMount, partition.CgroupPath(name), "cgroup.events"), "populated 1\n")
		}
	}
}

// tree returns what is below /run of the node at root: files by their content, and links by their
// target.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "run"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var content []byte
		switch {
		case entry.IsDir():
		case entry.Type()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(path)
			content = []byte("-> " + strings.TrimPrefix(target, root))
		default:
			content, err = os.ReadFile(path)
		}
		found[strings.TrimPrefix(path, root)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// newRootInMemory creates the root of a node in memory.
func newRootInMemory(t *testing.T) string {
	t.Helper()
	root := folderInMemory(t)
	if err := named(t, "01-kubeadm").WriteNode(root, "."); err != nil {
		t.Fatal(err)
	}
	golden.Flush(t, root)
	return root
}

// copyRoot copies the root of a node. The copy has no output of the last run.
func copyRoot(t *testing.T, root string) string {
	t.Helper()
	golden.Flush(t, root)
	again := folderInMemory(t)
	if err := os.CopyFS(again, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	return again
}

// folderInMemory creates a folder. Where this machine has a file system in memory it is there, as
// /run is on a node: the thousands of roots of TestKilledAnywhere take several times as long on a
// disk that others write to.
func folderInMemory(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "partition-generator")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { remove(t, folder) })
	return folder
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
		return err.Error() // nothing is decided
	}
	text, err := d.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestStateCannotBeWritten: a partition that is written file by file is better than none.
func TestStateCannotBeWritten(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, root string) result{
		"a file in its place": func(t *testing.T, root string) result {
			t.Helper()
			write(t, root, "run/node-partition", "")
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
		got := reload(t, root, config, inProgram(t))
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
	// shutdown from stopping slices of pods first. The file in which a section may come is watched on.
	stays := []string{
		"kubepods-system-.slice.d/50-node-partition.conf", "kubepods-system.slice.d/50-node-partition.conf",
		"kubepods.slice.d/50-node-partition.conf", "partition-generator-apply.path", "partition-generator-apply.service",
		"partition-generator-read.service", "partition-generator-watch.path", "partition-generator-watch.service",
		"slices.target.d/50-node-partition.conf",
	}
	for _, off := range []result{step(noSection, 0), step(badConfig, 1), step(noSection, 0)} {
		if !slices.Equal(golden.Names(off.Units), stays) {
			t.Errorf("units after the section was removed: %q", golden.Names(off.Units))
		}
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
		reload(t, root, config, inProgram(t))
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

func configure(t *testing.T, root, config string) {
	t.Helper()
	write(t, root, configPath, config)
}

// runKilled runs the generator and kills it with SIGKILL at a point. It reports whether the
// generator was killed.
func runKilled(t *testing.T, root string, at point) bool {
	t.Helper()
	out, err := traced(t, root, at.call, "signal=KILL:when="+strconv.Itoa(at.n)).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			t.Fatalf("%s: %v\n%s", at, err, out)
		}
		return false
	}
	// strace ends as the generator does, with status 1 for a broken configuration.
	status := exit.Sys().(syscall.WaitStatus)
	if killed := status.Signaled() && status.Signal() == syscall.SIGKILL; killed || exit.ExitCode() == 1 {
		return killed
	}
	t.Fatalf("%s: %v\n%s", at, err, out)
	return false
}

// traced returns the generator under strace, which manipulates one of its system calls: see
// --inject of strace(1).
func traced(t *testing.T, root, call, injection string) *exec.Cmd {
	t.Helper()
	strace := testkit.NeedProgram(t, "strace", "strace")
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
