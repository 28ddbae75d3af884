package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/slices/config"
)

// check is a named check of the node. Names never change, because --ignore takes them. The page
// that explains a check has its name.
type check struct {
	name string
	look func(*checks, context.Context) []state.Finding
	// needs says what the check reads beside files of the configuration.
	needs needs
}

// needs names a kind of facts that another node may lack.
type needs int

const (
	files needs = iota
	cgroupFiles
	services
	// api is the cluster. Checks that need it are left out on another node, whose credentials are not
	// to be used here.
	api
)

// patience bounds the wait for an answer of the runtime or the kubelet. One that has not answered
// is not asked by another check.
const patience = 10 * time.Second

// pages has a page NAME.md for each check, below the prefix of the installation.
const pages = "share/doc/node-partition/troubleshooting"

// allChecks lists the checks in the order in which Node runs them. Later checks use what earlier
// ones have read.
var allChecks = []check{
	{"configuration", (*checks).configuration, files},
	{"trial", (*checks).trial, files},
	{"kubelet", (*checks).kubelet, files},
	{"systemd", (*checks).systemd, services},
	{"slice", (*checks).slice, cgroupFiles},
	{"reserved", (*checks).reserved, cgroupFiles},
	{"floor", (*checks).floor, cgroupFiles},
	{"runtime", (*checks).container, services},
	{"cgroup-driver", (*checks).driver, services},
	{"nri", (*checks).served, services},
	{"pods-api", (*checks).pods, services},
	{"namespaces", (*checks).namespaces, services},
	{"eviction-kernel", (*checks).evictionKernel, cgroupFiles},
	{"eviction-api", (*checks).evictionAPI, services},
	{"events", (*checks).events, services},
	{"workload-resource", (*checks).workloadResource, api},
	{"workload-rights", (*checks).workloadRights, api},
	{"swap", (*checks).swap, files},
	{"systemd-oomd", (*checks).oomd, services},
	{"service", (*checks).service, services},
	// The first compares cgroups with systemd's properties: a file that somebody has written beside
	// systemd has that finding, and no other.
	{"second-writer", compared(ofSystemd, (*tree).secondWriters), services},
	{"collective-limit", compared(always, (*tree).collectiveLimits), cgroupFiles},
	{"cpu-manager", compared(ofPods, (*tree).cpuManager), cgroupFiles},
}

// Names returns the names of all checks, in their order.
func Names() []string {
	names := make([]string, 0, len(allChecks))
	for _, c := range allChecks {
		names = append(names, c.name)
	}
	return names
}

// checks holds the input of the checks, and what they have read for later ones.
type checks struct {
	runtime *node.Runtime
	cgroups cgroups.FS
	options node.Options

	desired *node.Desired
	// settings reads the settings of the kubelet, once.
	settings func() (node.KubeletSettings, error)
	yields   bool
	// runtimeName is the name of the runtime that has answered; empty without an answer.
	runtimeName string
	// unreachable is the error of an API server that has not answered; nil before.
	unreachable error
	// trees holds what the checks of the tree of cgroups are applied to: two readings, of which the
	// second is made if the first has findings. treeErr is the error of reading.
	trees   [2]*tree
	treeErr error
	// asked holds what the API server has said; nil before the first check that needs it.
	asked *clusterFacts
}

func saying(g state.Grade, format string, args ...any) []state.Finding {
	return []state.Finding{{Grade: g, Found: fmt.Sprintf(format, args...)}}
}

// changing is saying with a change.
func changing(g state.Grade, change, format string, args ...any) []state.Finding {
	return []state.Finding{{Grade: g, Found: fmt.Sprintf(format, args...), Change: change}}
}

// slice compares the running partitions with the configuration.
func (c *checks) slice(context.Context) []state.Finding {
	found := make([]state.Finding, 0, len(c.desired.Partitions))
	for i := range c.desired.Partitions {
		found = append(found, c.sliceOf(&c.desired.Partitions[i])...)
	}
	return found
}

// sliceOf compares one running partition with the configuration.
func (c *checks) sliceOf(want *config.Partition) []state.Finding {
	slice := want.Name.Slice()
	path := partition.CgroupPath(slice)
	limits, err := c.cgroups.Limits(path)
	reload := "systemctl daemon-reload; a setting of your own wins, see systemctl cat " + slice
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return changing(
			state.Error, "systemctl daemon-reload, and then systemctl start slices.target; is partition-generator installed?",
			"%s is not active", slice,
		)
	case err != nil:
		return saying(state.Error, "%v", err)
	case c.desired.Deferrals[want.Name] != nil:
		return saying(state.Warning, "%s: memory.max is %s; the configured %d takes effect when partition-monitor has evicted down to it",
			slice, maxText(limits.MemoryMax), want.Max())
	}
	var found []state.Finding
	differs := func(file, is, wanted string) {
		found = append(
			found,
			changing(state.Error, reload, "%s: %s is %s; the configuration asks for %s", slice, file, is, wanted)...)
	}
	if want.Limit == 0 && limits.MemoryMax != cgroups.Unlimited {
		differs("memory.max", maxText(limits.MemoryMax), "none")
	}
	if want.Limit > 0 && limits.MemoryMax != wholePages(want.Max()) {
		differs("memory.max", maxText(limits.MemoryMax), fmt.Sprint(want.Max()))
	}
	if high, ok := c.file(path, "memory.high"); ok {
		wanted := "max"
		if want.MemoryHigh > 0 {
			wanted = fmt.Sprint(wholePages(want.MemoryHigh))
		}
		if high != wanted {
			differs("memory.high", high, wanted)
		}
	}
	data, err := c.cgroups.ReadFile(path, "cpuset.cpus")
	if err == nil || errors.Is(err, fs.ErrNotExist) { // without the controller there is none
		text := strings.TrimSpace(string(data))
		if cpus, err := cpuset.Parse(text); err == nil && !cpus.Equals(want.CPUs) && (!want.CPUs.IsEmpty() || !c.all(cpus)) {
			differs("cpuset.cpus", strconv.Quote(text), strconv.Quote(want.CPUs.String()))
		}
	}
	if found == nil {
		found = saying(state.OK, "%s is active with its limits", slice)
	}
	return found
}

// all reports whether these are all CPUs that pods have beside exclusive ones. The generator gives
// them to a partition without a cpuset, if another one is exclusive, or if it had a cpuset before
// and has processes.
func (c *checks) all(cpus cpuset.CPUSet) bool {
	_, pods, err := c.cgroups.CPUs(partition.CgroupPath(partition.Default.Slice()))
	return err == nil && pods.IsSubsetOf(cpus.Union(config.ExclusiveCPUs(c.desired.Partitions)))
}

// reserved checks the cgroups that the kubelet expects: it does not start without them, nor without
// the controllers.
func (c *checks) reserved(context.Context) []state.Finding {
	expected := c.desired.Reserved.Slices
	if len(expected) == 0 {
		return saying(state.OK, "the kubelet expects no cgroup for reserved resources")
	}
	const file = "cgroup.controllers"
	root, _ := c.file("", file)
	var found []state.Finding
	for _, s := range expected {
		cgroup := partition.CgroupPath(s.Name)
		text, _ := c.file(cgroup, file)
		needs := []string{"cpu", "cpuset", "memory", "pids"}
		if strings.Contains(cgroup, "/") { // below the root the kubelet enables this one itself
			needs = append(needs, "hugetlb")
		}
		missing := slices.DeleteFunc(needs, func(controller string) bool {
			return !slices.Contains(strings.Fields(root), controller) || slices.Contains(strings.Fields(text), controller)
		})
		if len(missing) > 0 {
			found = append(found, changing(
				state.Error, "systemctl daemon-reload, and then systemctl restart kubelet",
				"%s: no cgroup with the controllers %s; the kubelet does not start with %s in enforceNodeAllocatable (%s)",
				s.Name, strings.Join(missing, ", "), s.For, s.File,
			)...)
		}
	}
	if found == nil {
		found = saying(state.OK, "the cgroups that the kubelet expects exist, with their controllers")
	}
	return found
}

// wholePages rounds a limit down to whole pages, as the kernel does.
func wholePages(bytes uint64) uint64 { return bytes &^ (uint64(os.Getpagesize()) - 1) }

// file reads a file of a cgroup. It returns false if the file cannot be read, for example because
// its controller is off.
func (c *checks) file(cgroup, name string) (string, bool) {
	data, err := c.cgroups.ReadFile(cgroup, name)
	return strings.TrimSpace(string(data)), err == nil
}

func maxText(value uint64) string {
	if value == cgroups.Unlimited {
		return "max"
	}
	return fmt.Sprint(value)
}

func (c *checks) service(ctx context.Context) []state.Finding {
	running := node.Service{Socket: c.options.Node.Path(node.ControlSocket), Listen: c.options.Listen}
	if service := running.Ready(ctx); service != "ready" {
		return saying(state.Warning, "%s", service)
	}
	if err := running.Listening(ctx); err != nil {
		return saying(state.Warning, "ready, but metrics and health are not served: %v", err)
	}
	return saying(state.OK, "ready, metrics at %s", c.options.Listen)
}
