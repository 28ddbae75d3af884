//go:build node

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	generatorPath = "/usr/lib/systemd/system-generators/partition-generator"
	systemSlice   = "kubepods-system.slice"
	systemCgroup  = "/sys/fs/cgroup/kubepods.slice/kubepods-system.slice"
)

// toInstall has the generator, the monitor and its unit in the places of make install. The programs
// are built once.
var toInstall []lab.File

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "node-partition-e2e")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if toInstall, err = buildPrograms(dir, ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// buildPrograms builds the generator and the monitor into a folder, for an architecture as Go names
// it, or for this machine's. It returns them and the monitor's unit in the places of make install.
func buildPrograms(dir, arch string) ([]lab.File, error) {
	for _, name := range []string{"partition-generator", "partition-monitor"} {
		if err := testkit.BuildFor(arch, "node-partition.io/node-partition/cmd/"+name, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	files, err := lab.Installed("../..", "deploy/installed", dir, "partition-generator", "partition-monitor", monitorUnit)
	if err != nil {
		return nil, err
	}
	if len(files) != 3 || files[0].Path != generatorPath {
		return nil, fmt.Errorf("deploy/installed has %v: want the generator, the monitor and its unit", files)
	}
	return files, nil
}

// partitionOf is a systemPartition section.
func partitionOf(memory, cpus string) string {
	section := "systemPartition:\n  memoryLimit: " + memory + "\n  namespaces: [kube-system]\n"
	if cpus != "" {
		section += "  cpuset: \"" + cpus + "\"\n"
	}
	return section
}

// installed returns the generator in the place of make install.
func installed() lab.File { return toInstall[0] }

// kubeletConfig is the configuration of the node's kubelet with a section at its end.
func kubeletConfig(t *testing.T, section string) lab.File {
	t.Helper()
	file, err := lab.KubeletConfig(section)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// onEach runs a test on each of these kinds of nodes, in parallel with all other tests: the lab
// runs as many machines at once as the host can hold.
func onEach(t *testing.T, flavours []string, test func(t *testing.T, flavour string)) {
	t.Helper()
	t.Parallel()
	if len(flavours) == 0 {
		t.Skip("nothing to show on LAB_FLAVOURS=" + os.Getenv("LAB_FLAVOURS"))
	}
	for _, flavour := range flavours {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			test(t, flavour)
		})
	}
}

// onOne runs a test on one kind of node, because it shows the same on each. LAB_FLAVOURS names
// another one.
func onOne(t *testing.T, test func(t *testing.T, flavour string)) {
	t.Helper()
	able := allFlavours()
	if everything() {
		able = []string{"trixie"}
	}
	onEach(t, kinds(able, "trixie"), test)
}

// allFlavours returns the names of all kinds of nodes, and of those on request that LAB_FLAVOURS
// names.
func allFlavours() []string {
	all := lab.Flavours()
	names := make([]string, 0, len(all))
	for _, f := range all {
		names = append(names, f.Name)
	}
	// One that is made on request is as good as the others, if the programs of the tests run there.
	for _, name := range wantedFlavours() {
		if f, err := lab.FlavourByName(name); err == nil && f.OnRequest && f.Arch == "" {
			names = append(names, name)
		}
	}
	return names
}

// wantedFlavours returns the kinds that LAB_FLAVOURS names.
func wantedFlavours() []string {
	return strings.FieldsFunc(os.Getenv("LAB_FLAVOURS"), func(r rune) bool { return r == ',' || r == ' ' })
}

// debians returns the kinds that differ in systemd. Tests of the generator alone run on these,
// because the runtime does not matter to it.
func debians() []string {
	return slices.DeleteFunc(allFlavours(), func(name string) bool { return name == "crio" })
}

// kinds returns the kinds on which a test runs: those that LAB_FLAVOURS names, or all if
// LAB_EVERYTHING is set ("make test-nodes"), or else those in enough. all has the kinds on which
// the test shows another thing: with another runtime, with another systemd.
func kinds(all []string, enough ...string) []string {
	wanted := wantedFlavours()
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		switch {
		case len(wanted) > 0:
			return !slices.Contains(wanted, name)
		case everything():
			return false
		default:
			return !slices.Contains(enough, name)
		}
	})
}

// everything reports whether "make test-nodes" runs the tests. It repeats on each flavour what
// "make test" shows on one.
func everything() bool { return os.Getenv("LAB_EVERYTHING") != "" }

// run runs a command on the node and returns its output without white space around it.
func run(t *testing.T, n *lab.Node, command string) string {
	t.Helper()
	out, err := n.Run(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// property reads a property of a unit from systemd.
func property(t *testing.T, n *lab.Node, unit, name string) string {
	t.Helper()
	return run(t, n, "systemctl show --value -p "+name+" "+unit)
}

// number reads a numeric property.
func number(t *testing.T, n *lab.Node, unit, name string) uint64 {
	t.Helper()
	text := property(t, n, unit, name)
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s of %s is %q: %v", name, unit, text, err)
	}
	return value
}

// want compares the output of a command.
func want(t *testing.T, n *lab.Node, command, expected string) {
	t.Helper()
	if got := run(t, n, command); got != expected {
		t.Errorf("%s: %s says %q, want %q", n.Name, command, got, expected)
	}
}

// reload reloads systemd and waits until changed limits are applied.
func reload(t *testing.T, n *lab.Node) {
	t.Helper()
	run(t, n, "systemctl daemon-reload")
	err := n.Eventually(t.Context(), "changed limits applied", func(ctx context.Context) (bool, string, error) {
		out, err := n.Run(ctx, "ls -A /run/node-partition/units 2>/dev/null | grep -x .apply; systemctl show --value -p ActiveState partition-generator-apply.service")
		got := strings.TrimSpace(out)
		return got == "inactive", got, err
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, n, "systemctl show --value -p Result partition-generator-apply.service", "success")
}

// wantLimits compares the limits of the partition in systemd and in the kernel.
func wantLimits(t *testing.T, n *lab.Node, memory, cpus string) {
	t.Helper()
	want(t, n, "cat "+systemCgroup+"/memory.max", memory)
	want(t, n, "cat "+systemCgroup+"/cpuset.cpus", cpus)
	if memory == "max" {
		memory = "infinity"
	}
	want(t, n, "systemctl show --value -p MemoryMax "+systemSlice, memory)
	want(t, n, "systemctl show --value -p AllowedCPUs "+systemSlice, cpus)
}

// startedBeforeKubelet: the partition was active when the kubelet was started for the first and
// only time.
func startedBeforeKubelet(t *testing.T, n *lab.Node) {
	t.Helper()
	want(t, n, "systemctl show --value -p NRestarts kubelet.service", "0")
	slice, kubelet := number(t, n, systemSlice, "ActiveEnterTimestampMonotonic"), number(t, n, "kubelet.service", "ExecMainStartTimestampMonotonic")
	if slice == 0 || slice >= kubelet {
		t.Errorf("%s is active %d µs after boot, the kubelet starts at %d; want it before", systemSlice, slice, kubelet)
	}
}
