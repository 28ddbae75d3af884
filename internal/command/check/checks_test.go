package check

import (
	"os"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/tests/fakenode"
)

// TestAssignable: CPUs of a partition that the static policy may assign to a user are a warning.
func TestAssignable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy, reserved, cpus string
		exclusive              bool
		found                  string
	}{
		"reserved":          {"static", "0-1", "0", false, ""},
		"no static policy":  {"none", "0", "1", false, ""},
		"not reserved":      {"static", "0", "1", false, `reservedSystemCPUs is "0": the static CPU manager may assign the CPUs 1 of systemPartition `},
		"nothing reserved":  {"static", "", "0-1", false, `reservedSystemCPUs is "": the static CPU manager may assign the CPUs 0-1 `},
		"exclusive":         {"static", "0", "0-1", true, "to a Guaranteed container of a user alone: it is kept off them"},
		"without a cpuset":  {"static", "0", "", false, ""},
		"not a list of any": {"static", "0-", "1", false, ""},
	} {
		settings := node.KubeletSettings{Config: &kubeletconfig.Merged{}}
		settings.Kubelet.CPUManagerPolicy, settings.Kubelet.ReservedSystemCPUs = test.policy, test.reserved
		cpus, err := cpuset.Parse(test.cpus)
		if err != nil {
			t.Fatal(err)
		}
		found := assignable(&config.Partition{Name: partition.System, CPUs: cpus, Exclusive: test.exclusive}, &settings)
		if (len(found) == 0) != (test.found == "") || len(found) > 0 && (!strings.Contains(found[0].Found, test.found) || found[0].Change == "") {
			t.Errorf("%s: %+v; want %q", name, found, test.found)
		}
	}
}

// TestOtherTree: a kubelet that was started with another cgroup root is an error that names it.
func TestOtherTree(t *testing.T) {
	t.Parallel()
	var flags kubelet.Flags
	if found := otherTree(&flags); found != nil {
		t.Errorf("%+v for a kubelet without the flag", found)
	}
	flags.Fields = map[string]any{"cgroupRoot": "/k8s"}
	found := otherTree(&flags)
	if len(found) != 1 || found[0].Grade != state.Error || !strings.Contains(found[0].Found, "--cgroup-root=/k8s") {
		t.Errorf("%+v; want an error with the flag", found)
	}
}

// TestChecksAreDocumented: each check has a name of its own, a page, and an entry in the index of
// pages and in the manual page.
func TestChecksAreDocumented(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../../man/partition-monitor-check.1")
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile("../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range allChecks {
		page := "troubleshooting/" + c.name + ".md"
		if _, err := os.Stat("../../../docs/" + page); err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(index), "("+page+")") {
			t.Errorf("docs/troubleshooting.md does not have %s", page)
		}
		if seen[c.name] {
			t.Errorf("%s twice", c.name)
		}
		seen[c.name] = true
		if !strings.Contains(string(manual), "\n.It Sy "+c.name+"\n") {
			t.Errorf("partition-monitor-check(1) does not have the check %s", c.name)
		}
	}
}

// TestSliceBesideExclusive: a partition without a cpuset has the CPUs that an exclusive one leaves.
func TestSliceBesideExclusive(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	n.Partition("max")
	n.Write(fakenode.SystemCgroup+"/../cpuset.cpus", "")
	n.Write(fakenode.SystemCgroup+"/../cpuset.cpus.effective", "0-3")
	system := config.Partition{Name: partition.System}
	c := checks{cgroups: n.Host().Cgroups, desired: &node.Desired{Config: &config.Config{Partitions: []config.Partition{
		system, {Name: "telemetry", CPUs: cpuset.New(0), Exclusive: true},
	}}}}
	for cpus, want := range map[string]state.Grade{"1-3": state.OK, "1-2": state.Error} {
		n.Write(fakenode.SystemCgroup+"/cpuset.cpus", cpus)
		if found := c.sliceOf(&system); len(found) != 1 || found[0].Grade != want {
			t.Errorf("%s: %+v; want %s", cpus, found, want)
		}
	}
}

// TestSliceWithoutController: a cpuset that no cgroup has is not in force.
func TestSliceWithoutController(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	n.Partition("max")
	c := checks{cgroups: n.Host().Cgroups, desired: &node.Desired{Config: &config.Config{}}}
	found := c.sliceOf(&config.Partition{Name: partition.System, CPUs: cpuset.New(0)})
	if len(found) != 1 || found[0].Grade != state.Error || !strings.Contains(found[0].Change, "systemctl cat kubepods-system.slice") {
		t.Errorf("%+v; want an error that names the operator's settings", found)
	}
}

// TestRestartKubelet: the remedy removes the CPU manager's state from the kubelet's --root-dir.
func TestRestartKubelet(t *testing.T) {
	t.Parallel()
	if text := restart(&node.KubeletSettings{RootDir: "/data/kubelet"}); !strings.Contains(text, " /data/kubelet/cpu_manager_state,") {
		t.Error(text)
	}
}

// TestSwapOfWorkloadPartition: the setting for swap is about the system partition alone.
func TestSwapOfWorkloadPartition(t *testing.T) {
	t.Parallel()
	n := fakenode.Whole(t)
	n.Write("/proc/swaps", "Filename Type\n/swapfile file\n")
	n.Write("/sys/fs/cgroup/kubepods.slice/kubepods-batch.slice/memory.swap.max", "max")
	c := checks{cgroups: n.Host().Cgroups, options: node.Options{Node: n.Host()}}
	found := c.swapOf("batch", nil)
	if len(found) != 1 || found[0].Grade != state.Warning || !strings.HasPrefix(found[0].Found, "kubepods-batch.slice may") ||
		!strings.HasPrefix(found[0].Change, "systemctl set-property kubepods-batch.slice ") {
		t.Errorf("%+v", found)
	}
}
