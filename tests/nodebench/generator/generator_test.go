// Package generator compares the generator with systemd's own, whole processes, in one run.
package generator

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"nodepartition/tests/generator/golden"
	"nodepartition/tests/program"
)

// fstabGenerators lists the paths of systemd's own generator. Debian 11 and older have the second
// one.
var fstabGenerators = []string{
	"/usr/lib/systemd/system-generators/systemd-fstab-generator",
	"/lib/systemd/system-generators/systemd-fstab-generator",
}

// minRuns is the number of runs that a median needs.
const minRuns = 30

// contender is a program to run. Its output folder is empty before each run.
type contender struct {
	name    string
	command func(out string) *exec.Cmd
	times   []time.Duration
}

func (p *contender) median() time.Duration {
	sorted := slices.Sorted(slices.Values(p.times))
	return sorted[len(sorted)/2]
}

// BenchmarkGenerator runs the programs in turn, so that the load of the machine affects all of them
// alike, and reports medians and ratios. Files are on a tmpfs, as /run is.
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
	node := filepath.Join(dir, "node")
	kubeadm, err := golden.Read("../../generator", "01-kubeadm")
	if err != nil {
		b.Fatal(err)
	}
	if err := kubeadm.WriteNode(node, "../../generator"); err != nil {
		b.Fatal(err)
	}
	build(b, "nodepartition/cmd/partition-generator", filepath.Join(node, "partition-generator"))
	build(b, "nodepartition/tests/nodebench/generator/linkedtypes", filepath.Join(dir, "linkedtypes"))
	build(b, "nodepartition/tests/nodebench/generator/empty", filepath.Join(dir, "empty"))
	out := filepath.Join(node, "run/systemd/generator")
	fstab := &contender{name: "fstab-generator", command: func(out string) *exec.Cmd {
		return exec.Command(fstabGenerator(b), out, out, out)
	}}
	ours := &contender{name: "partition-generator", command: func(string) *exec.Cmd {
		cmd := exec.Command("/partition-generator", "/run/systemd/generator", "/run/systemd/generator.early", "/run/systemd/generator.late")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: node}
		return cmd
	}}
	linked := &contender{name: "kubelet-types-linked", command: func(string) *exec.Cmd { return exec.Command(filepath.Join(dir, "linkedtypes")) }}
	empty := &contender{name: "empty-go-program", command: func(string) *exec.Cmd { return exec.Command(filepath.Join(dir, "empty")) }}
	programs := []*contender{fstab, ours, linked, empty}
	for range b.N {
		for _, p := range programs {
			p.times = append(p.times, measure(b, p, out))
		}
	}
	if entries, err := os.ReadDir(filepath.Join(node, "run/node-partition/units")); err != nil || len(entries) < 6 {
		b.Fatalf("the generator has made %d files, %v; want the units", len(entries), err)
	}
	for _, p := range programs {
		b.ReportMetric(float64(p.median().Microseconds()), p.name+"-µs")
	}
	b.ReportMetric(float64(ours.median())/float64(fstab.median()), "ratio-to-fstab-generator")
	b.ReportMetric(float64(linked.median())/float64(fstab.median()), "ratio-of-linked-types")
	b.ReportMetric(0, "ns/op")
}

// measure returns the time of one whole process, from fork to wait.
func measure(b *testing.B, p *contender, out string) time.Duration {
	b.Helper()
	if err := os.RemoveAll(out); err != nil {
		b.Fatal(err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		b.Fatal(err)
	}
	cmd := p.command(out)
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
	if err := program.Build(pkg, path); err != nil {
		b.Fatal(err)
	}
}
