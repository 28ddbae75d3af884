package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nodepartition/tests/lab"
)

// TestWithoutPartition: a node without a section, and one with node_partition=0, are as a node that never had the
// program: the same units, the same cgroups with the same limits.
func TestWithoutPartition(t *testing.T) {
	for _, flavour := range kinds(debians(t), "trixie") {
		t.Run(flavour, func(t *testing.T) {
			never := lab.ForTest(t, lab.Options{Flavour: flavour})
			if err := never.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			plain := look(t, never)
			if kubepods := fmt.Sprint(plain.cgroups["/kubepods.slice"]); len(plain.units) < 50 || len(plain.cgroups) < 20 ||
				!strings.Contains(kubepods, "memory.max=MemTotal") {
				t.Fatalf("%d units, %d cgroups, kubepods.slice %s: that is no node with a kubelet", len(plain.units), len(plain.cgroups), kubepods)
			}
			t.Run("no section", func(t *testing.T) {
				// The same node, with the program and after a reboot.
				if err := never.CopyTo(t.Context(), programs()...); err != nil {
					t.Fatal(err)
				}
				run(t, never, "systemctl daemon-reload")
				if err := never.Reboot(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := never.WaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				compare(t, plain, look(t, never))
				want(t, never, "journalctl -b -o cat -t partition-generator", "")
				// It was the lack of a section, and not of a program that works.
				configure(t, never, partition("512Mi", "0-1"))
				run(t, never, "systemctl start slices.target")
				wantLimits(t, never, "536870912", "0-1")
			})
			if err := never.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Run("node_partition=0", func(t *testing.T) {
				off := lab.ForTest(t, lab.Options{
					Flavour:    flavour,
					Files:      append(programs(), kubeletConfig(t, partition("512Mi", "0-1"))),
					KernelArgs: []string{"node_partition=0"},
				})
				if err := off.WaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				compare(t, plain, look(t, off))
				want(t, off, "grep -ow node_partition=0 /proc/cmdline", "node_partition=0")
				want(t, off, "grep -c '^systemPartition:' "+lab.KubeletConfigPath, "1")
				want(t, off, generatorPath+" --version", "partition-generator unknown")
			})
		})
	}
}

// node is what can be seen of a node: its units with their states, and its cgroups with their limits.
type node struct {
	units   map[string][]string
	cgroups map[string][]string
}

// add adds a value under a name that several may have: the containers of a pod, once their IDs are gone.
func add(to map[string][]string, name, value string) {
	to[name] = append(to[name], value)
	slices.Sort(to[name])
}

// limits are the files of a cgroup that say what was set, and not what is used.
var limits = []string{
	"memory.max", "memory.high", "memory.min", "memory.low", "memory.swap.max", "memory.oom.group",
	"cpu.weight", "cpu.max", "cpuset.cpus", "cpuset.mems", "pids.max", "io.weight",
	"cgroup.subtree_control", "cgroup.type",
}

// Names that differ from boot to boot, or from node to node.
var varying = []struct {
	pattern *regexp.Regexp
	to      string
}{
	{regexp.MustCompile(`cri-containerd-[0-9a-f]{64}`), "cri-containerd-ID"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "ID"},
	{regexp.MustCompile(`-pod[0-9a-f_]{32,36}`), "-podUID"},
	{regexp.MustCompile(`pods-[0-9a-f]{8}\\x2d[0-9a-f]{4}\\x2d[0-9a-f]{4}\\x2d[0-9a-f]{4}\\x2d[0-9a-f]{12}`), "pods-UID"},
	{regexp.MustCompile(`pods-[0-9a-f]{32}`), "pods-UID"},
	{regexp.MustCompile(`netns-cni\\x2d[0-9a-f\\x-]+\.mount`), "netns-cni-ID.mount"},
	{regexp.MustCompile(`volumes-kubernetes\.io\\x7eprojected-.*\.mount`), "volumes.mount"},
	{regexp.MustCompile(`session-[0-9c]+\.scope`), "session-N.scope"},
	{regexp.MustCompile(`sshd?@[^/]*\.service`), "ssh@N.service"},
}

func normal(name string) string {
	for _, v := range varying {
		name = v.pattern.ReplaceAllString(name, v.to)
	}
	return name
}

// comesAndGoes are units that are there or not depending on the moment: jobs of timers, and what our own login brings.
var comesAndGoes = regexp.MustCompile(`^(session-|user@|user-runtime-dir@|user-0\.slice|ssh@|sshd@|systemd-tmpfiles-clean|systemd-(hostnamed|timedated|localed)|.*\.device$|run-user-0)`)

func look(t *testing.T, n *lab.Node) node {
	t.Helper()
	seen := node{units: map[string][]string{}, cgroups: map[string][]string{}}
	// What is installed is installed; it must not run.
	for line := range strings.Lines(run(t, n, "systemctl list-units --all --plain --no-legend")) {
		fields := strings.Fields(line)
		if len(fields) < 4 || comesAndGoes.MatchString(fields[0]) {
			continue
		}
		add(seen.units, normal(fields[0]), strings.Join(fields[1:4], " "))
	}
	for line := range strings.Lines(run(t, n, "systemctl list-unit-files --plain --no-legend")) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] == "transient" || fields[0] == monitorUnit || comesAndGoes.MatchString(fields[0]) {
			continue
		}
		add(seen.units, "file "+fields[0], fields[1])
	}
	memory := capacity(t, n) // differs by some pages from boot to boot
	tree, err := n.CgroupTree(t.Context(), limits...)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range tree {
		if strings.Contains(group.Path, "user.slice/") {
			continue
		}
		values := ""
		for _, name := range slices.Sorted(maps.Keys(group.Values)) {
			value := group.Values[name]
			if value == memory {
				value = "MemTotal"
			}
			values += name + "=" + value + " "
		}
		path := normal(group.Path)
		if comesAndGoes.MatchString(path[strings.LastIndex(path, "/")+1:]) {
			continue
		}
		add(seen.cgroups, path, values)
	}
	return seen
}

// compare reports each difference.
func compare(t *testing.T, plain, other node) {
	t.Helper()
	for what, maps := range map[string][2]map[string][]string{"unit": {plain.units, other.units}, "cgroup": {plain.cgroups, other.cgroups}} {
		for name, value := range maps[0] {
			if got, ok := maps[1][name]; !ok {
				t.Errorf("%s %s is missing", what, name)
			} else if !slices.Equal(got, value) {
				t.Errorf("%s %s: %q, want %q", what, name, got, value)
			}
		}
		for name := range maps[1] {
			if _, ok := maps[0][name]; !ok {
				t.Errorf("%s %s was not there before", what, name)
			}
		}
	}
}
