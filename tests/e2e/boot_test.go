package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"nodepartition/tests/lab"
)

// TestConfigured boots a node with a system partition and then does to it what an operator does.
func TestConfigured(t *testing.T) {
	for _, flavour := range flavours(t) {
		t.Run(flavour, func(t *testing.T) {
			n := lab.ForTest(t, lab.Options{
				Flavour: flavour,
				Files:   []lab.File{program(), kubeletConfig(t, reserved+partition("512Mi", "0-1"))},
			})
			if err := n.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				name string
				test func(*testing.T, *lab.Node)
			}{
				{"boot", booted},
				{"verify", verify},
				{"changed limit", changedLimit},
				{"broken file", brokenFile},
				{"kubelet restarted", kubeletRestarted},
				{"repaired file", repairedFile},
				{"killed generator", killedGenerator},
				{"section removed", sectionRemoved},
			} {
				t.Run(step.name, func(t *testing.T) {
					step.test(t, n)
					kubeletUnharmed(t, n)
				})
			}
		})
	}
}

// reserved is part of the configuration of TestConfigured: with a reservation, the kubelet's limit on kubepods.slice
// is not what a slice has without one.
const reserved = "kubeReserved: {memory: 256Mi}\n"

// booted: the slices are there before the kubelet, with the limits of the configuration.
func booted(t *testing.T, n *lab.Node) {
	t.Helper()
	want(t, n, "systemctl is-active kubepods-system.slice kubepods-system-burstable.slice kubepods-system-besteffort.slice | uniq", "active")
	wantLimits(t, n, "536870912", "0-1")
	want(t, n, "cat "+systemCgroup+"/kubepods-system-besteffort.slice/cpu.weight", "1")
	slice, kubelet := number(t, n, systemSlice, "ActiveEnterTimestampMonotonic"), number(t, n, "kubelet.service", "ExecMainStartTimestampMonotonic")
	if slice == 0 || slice >= kubelet {
		t.Errorf("%s is active %d µs after boot, the kubelet starts at %d; want it before", systemSlice, slice, kubelet)
	}
	// Not by chance: the kubelet of this node starts late, for it waits for the network and the runtime.
	want(t, n, "systemctl show --value -p After kubelet.service | grep -ow "+systemSlice, systemSlice)
	want(t, n, "systemctl show --value -p Wants kubelet.service | grep -ow "+systemSlice, systemSlice)
	want(t, n, "systemctl show --value -p NRestarts kubelet.service", "0")
	want(t, n, "systemctl show --value -p Delegate kubelet.service containerd.service | sort -u | xargs", "yes")
	want(t, n, "systemctl show --value -p SourcePath "+systemSlice, lab.KubeletConfigPath)
	// Nothing to say: not by the generator, and not by systemd about its units.
	want(t, n, "journalctl -b -o cat -t partition-generator", "")
	want(t, n, "journalctl -b -o cat -p warning _PID=1 | grep -E 'kubepods-system|50-node-partition|partition-generator' || true", "")
}

// kubeletUnharmed: the kubelet keeps its own limits on kubepods.slice and runs its pods where it always does.
func kubeletUnharmed(t *testing.T, n *lab.Node) {
	t.Helper()
	const kubepods = "/sys/fs/cgroup/kubepods.slice"
	memory, err := strconv.ParseInt(capacity(t, n), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// Node Allocatable: capacity less reservations.
	want(t, n, "cat "+kubepods+"/memory.max", strconv.FormatInt(memory-256<<20, 10))
	if weight := run(t, n, "cat "+kubepods+"/cpu.weight"); weight == "100" {
		t.Error("cpu.weight of kubepods.slice is systemd's default: the kubelet has not set it")
	}
	want(t, n, "cat "+kubepods+"/cpuset.cpus.effective", "0-3")
	pods, err := n.Pods(t.Context())
	if err != nil || len(pods) != 3 {
		t.Fatalf("%d pods, %v; want the node's three", len(pods), err)
	}
	for i := range pods {
		if phase := pods[i].Status.Phase; phase != v1.PodRunning {
			t.Errorf("pod %s is %s", pods[i].Name, phase)
		}
	}
	inPods := 0
	for _, path := range cgroupPaths(t, n) {
		switch {
		case !strings.Contains(path, "-pod"):
		case strings.Contains(path, "kubepods-system"):
			t.Errorf("a pod in the partition, where only the monitor can put it: %s", path)
		default:
			inPods++
		}
	}
	if inPods < 6 {
		t.Errorf("%d cgroups of pods and their containers, want at least those of three pods", inPods)
	}
}

// kubeletRestarted: a kubelet that starts beside the partition takes over what is there.
func kubeletRestarted(t *testing.T, n *lab.Node) {
	t.Helper()
	run(t, n, "systemctl restart kubelet.service")
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLimits(t, n, "671088640", "1-2")
	want(t, n, "systemctl show --value -p NRestarts kubelet.service", "0")
}

// capacity is the node's memory in bytes.
func capacity(t *testing.T, n *lab.Node) string {
	t.Helper()
	return run(t, n, "awk '/MemTotal/ {printf \"%.0f\", $2*1024}' /proc/meminfo")
}

// verify: this systemd has nothing to say about the units. Manual pages are not on the node.
func verify(t *testing.T, n *lab.Node) {
	t.Helper()
	want(t, n, "systemd-analyze --man=no verify kubepods-system.slice kubepods-system-burstable.slice kubepods-system-besteffort.slice "+
		"kubelet.service containerd.service slices.target 2>&1", "")
}

// configure writes the kubelet's configuration and reloads systemd.
func configure(t *testing.T, n *lab.Node, section string) {
	t.Helper()
	if err := n.CopyTo(t.Context(), kubeletConfig(t, section)); err != nil {
		t.Fatal(err)
	}
	reload(t, n)
}

func changedLimit(t *testing.T, n *lab.Node) {
	t.Helper()
	configure(t, n, reserved+partition("640Mi", "1-2"))
	wantLimits(t, n, "671088640", "1-2")
}

// brokenFile: the limits of the running partition stay, at a second reload too, and the journal says why.
func brokenFile(t *testing.T, n *lab.Node) {
	t.Helper()
	for range 2 {
		configure(t, n, reserved+partition("640 MB", "1-2"))
		wantLimits(t, n, "671088640", "1-2")
	}
	wantSaid(t, n, lab.KubeletConfigPath+`: systemPartition.memoryLimit: "640 MB": is not a quantity; want a quantity such as 512Mi or 4Gi`)
	wantSaid(t, n, "keeping the units of the last good one")
	want(t, n, "journalctl -b -o json -t partition-generator -p err | grep -o '\"SYSLOG_FACILITY\":\"3\"' | sort -u", `"SYSLOG_FACILITY":"3"`)
}

// wantSaid looks for a message of the generator in the journal.
func wantSaid(t *testing.T, n *lab.Node, part string) {
	t.Helper()
	if said := run(t, n, "journalctl -b -o cat -t partition-generator"); !strings.Contains(said, part) {
		t.Errorf("the journal says\n%s\nwant %q", said, part)
	}
}

func repairedFile(t *testing.T, n *lab.Node) {
	t.Helper()
	configure(t, n, reserved+partition("768Mi", ""))
	wantLimits(t, n, "805306368", "")
}

// killedGenerator: links into nowhere, which is what a run leaves that is killed before its last step, bring systemd no
// unit and no setting, not even half of them. The next run repairs it.
func killedGenerator(t *testing.T, n *lab.Node) {
	t.Helper()
	wrapper := "#!/bin/sh\n/usr/lib/systemd/partition-generator.real \"$@\"\nmv /run/node-partition/units /run/node-partition/units.old\n"
	run(t, n, "mv "+generatorPath+" /usr/lib/systemd/partition-generator.real")
	if err := n.WriteFile(t.Context(), generatorPath, []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, n, "systemctl daemon-reload")
	want(t, n, "test -L /run/systemd/generator/kubepods-system.slice && test ! -e /run/systemd/generator/kubepods-system.slice && echo dangling", "dangling")
	for _, wanted := range [][3]string{
		{"kubepods-system.slice", "MemoryMax", "infinity"},
		{"kubepods-system.slice", "AllowedCPUs", ""},
		{"kubepods-system.slice", "FragmentPath", ""},
		{"kubepods-system-besteffort.slice", "CPUWeight", "[not set]"},
	} {
		if got := property(t, n, wanted[0], wanted[1]); got != wanted[2] {
			t.Errorf("%s of %s is %q, want %q", wanted[1], wanted[0], got, wanted[2])
		}
	}
	want(t, n, "systemctl show -p Wants -p After slices.target kubelet.service | grep -E 'kubepods|partition' || true", "")
	run(t, n, "mv /usr/lib/systemd/partition-generator.real "+generatorPath)
	reload(t, n)
	wantLimits(t, n, "805306368", "")
	want(t, n, "systemctl show --value -p Delegate kubelet.service", "yes")
}

// sectionRemoved: the units are gone and the limits with them. The empty slice stays until somebody stops it.
func sectionRemoved(t *testing.T, n *lab.Node) {
	t.Helper()
	configure(t, n, reserved)
	wantLimits(t, n, "max", "")
	want(t, n, "systemctl show --value -p FragmentPath "+systemSlice, "")
	want(t, n, "find /run/systemd/generator* /run/node-partition -name '*node-partition.conf' -o -name 'kubepods*'", "")
	want(t, n, "systemctl show --value -p DropInPaths kubelet.service | grep node-partition || true", "")
	run(t, n, "systemctl stop "+systemSlice)
	want(t, n, "ls -d "+systemCgroup+" 2>/dev/null || echo gone", "gone")
	// And back again.
	configure(t, n, reserved+partition("512Mi", "0"))
	run(t, n, "systemctl start slices.target")
	wantLimits(t, n, "536870912", "0")
}

// TestWithoutPartition: a node without a section, and one with node_partition=0, are as a node that never had the
// program: the same units, the same cgroups with the same limits.
func TestWithoutPartition(t *testing.T) {
	for _, flavour := range flavours(t) {
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
				if err := never.CopyTo(t.Context(), program()); err != nil {
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
					Files:      []lab.File{program(), kubeletConfig(t, partition("512Mi", "0-1"))},
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

// TestLateVar: the configuration is on a file system that systemd mounts itself, after the generators have run.
func TestLateVar(t *testing.T) {
	for _, flavour := range flavours(t) {
		t.Run(flavour, func(t *testing.T) {
			n := lab.ForTest(t, lab.Options{
				Flavour: flavour,
				Files: []lab.File{
					program(), kubeletConfig(t, partition("256Mi", "0-1")),
					// Drop-ins are on the root file system: half a configuration until /var is there.
					{Path: dropins + "/10-limit.conf", Data: []byte(dropinHead + "systemPartition: {memoryLimit: 512Mi}\nmaxPods: 20\n")},
					{Path: dropins + "/20-cpus.conf", Data: []byte(dropinHead + "reservedSystemCPUs: 0-1\n")},
					{Path: "/etc/default/node-partition", Data: []byte("KUBELET_CONFIG_DIR=" + dropins + "\n")},
					{Path: "/etc/default/kubelet", Data: []byte("KUBELET_EXTRA_ARGS=--config-dir=" + dropins + "\n")},
				},
				LateVar: true,
			})
			if err := n.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(t, n, "findmnt -n -o TARGET /var", "/var")
			wantLimits(t, n, "536870912", "0-1")
			want(t, n, "systemctl is-active kubepods-system.slice kubepods-system-burstable.slice kubepods-system-besteffort.slice | uniq", "active")
			slice, kubelet := number(t, n, systemSlice, "ActiveEnterTimestampMonotonic"), number(t, n, "kubelet.service", "ExecMainStartTimestampMonotonic")
			if slice == 0 || slice >= kubelet {
				t.Errorf("%s is active %d µs after boot, the kubelet starts at %d; want it before", systemSlice, slice, kubelet)
			}
			want(t, n, "systemctl show --value -p NRestarts kubelet.service", "0")
			want(t, n, "systemctl show --value -p Before partition-generator-late.service | grep -ow kubelet.service", "kubelet.service")
			want(t, n, "systemctl show --value -p Result,ActiveState,NeedDaemonReload partition-generator-late.service | xargs", "success active no")
			want(t, n, "journalctl -b -o cat -t partition-generator", "")
			want(t, n, "journalctl -b -o cat -p warning _PID=1 | grep -E 'kubepods-system|node-partition|partition-generator' || true", "")
			// The kubelet has merged the same files, sections that it does not know included.
			merged := configz(t, n)
			if merged.MaxPods != 20 || merged.ReservedSystemCPUs != "0-1" || merged.CgroupDriver != "systemd" {
				t.Errorf("the kubelet has maxPods %d, reservedSystemCPUs %q, cgroupDriver %q; want 20, 0-1, systemd",
					merged.MaxPods, merged.ReservedSystemCPUs, merged.CgroupDriver)
			}
			configure(t, n, partition("256Mi", "1-2"))
			wantSaid(t, n, lab.KubeletConfigPath+`: systemPartition.cpuset: "1-2": CPU 2 is not one of reservedSystemCPUs, 0-1`)
			wantLimits(t, n, "536870912", "0-1")
			// A reload later on changes nothing, and a broken file keeps it.
			configure(t, n, partition("1Gi", "x"))
			wantLimits(t, n, "536870912", "0-1")
		})
	}
}

const (
	dropins    = "/etc/kubernetes/kubelet.conf.d"
	dropinHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
)

// configz asks the kubelet for the configuration it runs with.
func configz(t *testing.T, n *lab.Node) kubeletv1beta1.KubeletConfiguration {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DialContext: n.Dial,
		// The kubelet of a node without an API server has a certificate that it signed itself.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:10250/configz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		KubeletConfig kubeletv1beta1.KubeletConfiguration `json:"kubeletconfig"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %v", response.Status, err)
	}
	return answer.KubeletConfig
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
	for line := range strings.Lines(run(t, n, "systemctl list-units --all --plain --no-legend")) {
		fields := strings.Fields(line)
		if len(fields) < 4 || comesAndGoes.MatchString(fields[0]) {
			continue
		}
		add(seen.units, normal(fields[0]), strings.Join(fields[1:4], " "))
	}
	for line := range strings.Lines(run(t, n, "systemctl list-unit-files --plain --no-legend")) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] == "transient" || comesAndGoes.MatchString(fields[0]) {
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

func cgroupPaths(t *testing.T, n *lab.Node) []string {
	t.Helper()
	tree, err := n.CgroupTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	paths := make([]string, 0, len(tree))
	for _, group := range tree {
		paths = append(paths, group.Path)
	}
	return paths
}
