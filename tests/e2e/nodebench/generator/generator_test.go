// Package generator compares the generator with systemd's own, whole processes, in one run.
package generator

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"node-partition.io/node-partition/tests/generator/golden"
	"node-partition.io/node-partition/tests/testkit"
)

// fstabGenerators lists the paths of systemd's own generator. Debian 11 and older have the second
// one.
var fstabGenerators = []string{
	"/usr/lib/systemd/system-generators/systemd-fstab-generator",
	"/lib/systemd/system-generators/systemd-fstab-generator",
}

// minRuns is the number of runs that a median needs.
const minRuns = 30

// override has five partitions, for a node whose kubelet's file has one.
const override = golden.KubeletHead + `systemPartition: {memoryLimit: 1Gi, cpuset: "0-1", namespaces: [kube-system]}
workloadPartitions:
  node-telemetry: {cpuset: "2", namespaces: [telemetry, logging], memoryLimit: 512Mi, memoryHigh: 480Mi, evictionHard: {memory.available: 10%}}
  batch: {memoryLimit: 2Gi, namespaces: [batch]}
  ingress: {memoryLimit: 1Gi, cpuset: "3", namespaces: [ingress]}
  storage: {memoryLimit: 1Gi, namespaces: [rook-ceph]}
`

// contender is a program to run.
type contender struct {
	name string
	// root is the root directory of the program; empty for that of this machine.
	root string
	args []string
	// out is the output folder, which is empty before each run.
	out   string
	times []time.Duration
}

func (p *contender) median() time.Duration {
	sorted := slices.Sorted(slices.Values(p.times))
	return sorted[len(sorted)/2]
}

// BenchmarkGenerator runs the programs in turn, so that the load of the machine affects all of them
// alike, and reports medians and ratios. Files are on a tmpfs, as /run is. Then it counts the
// instructions of one run of each, which the load of the machine does not change. They have a
// limit.
func BenchmarkGenerator(b *testing.B) {
	if b.N == 1 {
		return // the trial run of the testing package
	}
	if b.N < minRuns {
		b.Fatalf("%d runs: a median needs %d, pass -benchtime %dx", b.N, minRuns, minRuns)
	}
	if os.Geteuid() != 0 {
		b.Fatal("not root: the generator runs in a root directory of its own, as on a node; run as root")
	}
	dir, err := os.MkdirTemp("/dev/shm", "partition-generator")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	for _, name := range []string{"linkedtypes", "empty"} {
		build(b, "node-partition.io/node-partition/tests/e2e/nodebench/generator/"+name, filepath.Join(dir, name))
	}
	out := filepath.Join(dir, "out")
	fstab := &contender{name: "fstab-generator", args: []string{fstabGenerator(b), out, out, out}, out: out}
	one := newNode(b, "partition-generator", filepath.Join(dir, "one"), nil)
	five := newNode(b, "partition-generator-five", filepath.Join(dir, "five"), map[string]string{
		"etc/kubernetes/node-partition.yaml":               override,
		"usr/lib/systemd/system/partition-monitor.service": "[Service]\nExecStart=/bin/true\n",
	})
	linked := &contender{name: "kubelet-types-linked", args: []string{filepath.Join(dir, "linkedtypes")}, out: out}
	nothing := &contender{name: "empty-go-program", args: []string{filepath.Join(dir, "empty")}, out: out}
	programs := []*contender{fstab, one, five, linked, nothing}
	for range b.N {
		for _, p := range programs {
			p.times = append(p.times, measure(b, p))
		}
	}
	of := map[*contender]float64{}
	for _, p := range programs {
		of[p] = instructions(b, p, filepath.Join(dir, "valgrind"))
		b.ReportMetric(float64(p.median().Microseconds()), p.name+"-µs")
		b.ReportMetric(of[p]/1e6, p.name+"-Minstr")
	}
	for _, p := range programs[1:] {
		b.ReportMetric(float64(p.median())/float64(fstab.median()), p.name+"-to-fstab-µs")
		b.ReportMetric(of[p]/of[fstab], p.name+"-to-fstab-Minstr")
	}
	b.ReportMetric(0, "ns/op")
	for p, most := range map[*contender]float64{one: 0.65, five: 0.9} {
		if of[p] > most*of[fstab] {
			b.Errorf("%s executes %.2f of the instructions of systemd-fstab-generator; want %.2f at most", p.name, of[p]/of[fstab], most)
		}
	}
	for node, wanted := range map[*contender]int{one: 6, five: 20} {
		if entries, err := os.ReadDir(filepath.Join(node.root, "run/node-partition/units")); err != nil || len(entries) < wanted {
			b.Fatalf("%s has made %d files, %v; want %d", node.name, len(entries), err, wanted)
		}
	}
}

// newNode makes a node with kubeadm's configuration, a section in it, and more files.
func newNode(b *testing.B, name, root string, files map[string]string) *contender {
	b.Helper()
	kubeadm, err := golden.Read("../../../generator", "01-kubeadm")
	if err != nil {
		b.Fatal(err)
	}
	maps.Copy(kubeadm.Files, files)
	if err := kubeadm.WriteNode(root, "../../../generator"); err != nil {
		b.Fatal(err)
	}
	build(b, "node-partition.io/node-partition/cmd/partition-generator", filepath.Join(root, "partition-generator"))
	args := []string{"/partition-generator", "/run/systemd/generator", "/run/systemd/generator.early", "/run/systemd/generator.late"}
	return &contender{name: name, root: root, args: args, out: golden.OutputDir(root)}
}

// instructions counts the instructions of a run outside of the kernel, in all threads. For a Go
// program valgrind needs GODEBUG: it says that the processor has an instruction which it does not
// have.
func instructions(b *testing.B, p *contender, dir string) float64 {
	b.Helper()
	testkit.NeedProgram(b, "valgrind", "valgrind")
	tools := filepath.Join(p.root, dir)
	if err := os.CopyFS(tools, os.DirFS("/usr/libexec/valgrind")); err != nil && !errors.Is(err, fs.ErrExist) {
		b.Fatal(err)
	}
	empty(b, p.out)
	if err := os.MkdirAll(filepath.Join(p.root, os.TempDir()), 0o755); err != nil {
		b.Fatal(err)
	}
	// valgrind needs /proc, which is mounted for this run alone.
	const script = `mount --bind /proc "$0/proc" && exec chroot "$0/" "$@"`
	cmd := exec.Command("/bin/sh", append([]string{
		"-c", script, p.root, dir + "/exp-bbv-amd64-linux", "--tool=exp-bbv", "--instr-count-only=yes", "--bb-out-file=/dev/null",
	}, p.args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Env = []string{"GODEBUG=cpu.rdtscp=off,asyncpreemptoff=1", "VALGRIND_LIB=" + dir, "VALGRIND_LAUNCHER=" + dir, "PATH=" + os.Getenv("PATH")}
	output, err := cmd.CombinedOutput()
	total := 0.0
	for _, thread := range regexp.MustCompile(`Total instructions: (\d+)`).FindAllSubmatch(output, -1) {
		n, _ := strconv.ParseFloat(string(thread[1]), 64) // digits
		total += n
	}
	if err != nil || total == 0 {
		b.Fatalf("%s: %v: %s", p.name, err, output)
	}
	return total
}

// empty empties a folder.
func empty(b *testing.B, dir string) {
	b.Helper()
	if err := os.RemoveAll(dir); err != nil {
		b.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
}

// measure returns the time of one whole process, from fork to wait.
func measure(b *testing.B, p *contender) time.Duration {
	b.Helper()
	empty(b, p.out)
	cmd := exec.Command(p.args[0], p.args[1:]...)
	if p.root != "" {
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: p.root}
	}
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		b.Fatalf("%s: %v", p.name, err)
	}
	return took
}

func fstabGenerator(b *testing.B) string {
	b.Helper()
	for _, path := range fstabGenerators {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path
		}
	}
	b.Fatal("systemd-fstab-generator is missing: install the package systemd")
	return ""
}

func build(b *testing.B, pkg, path string) {
	b.Helper()
	if err := testkit.Build(pkg, path); err != nil {
		b.Fatal(err)
	}
}
