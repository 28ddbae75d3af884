package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/monitor/control"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/unitname"
)

// check is a named check of the node. Names never change, because --ignore takes them.
type check struct {
	name string
	// docs is the page and section of our documentation that explains the check.
	docs string
	look func(*checks, context.Context) []Finding
}

const docsPage = "docs/troubleshooting.md#"

// allChecks lists the checks in the order in which Node runs them. Later checks use what earlier
// ones have read.
var allChecks = []check{
	{"configuration", docsPage + "configuration", (*checks).configuration},
	{"trial", docsPage + "trials", (*checks).trial},
	{"kubelet", docsPage + "questions", (*checks).kubelet},
	{"systemd", docsPage + "systemd", (*checks).systemd},
	{"slice", docsPage + "configuration", (*checks).slice},
	{"reserved", docsPage + "warnings", (*checks).reserved},
	{"floor", docsPage + "protected-memory", (*checks).floor},
	{"runtime", docsPage + "what-a-pass-fails-with", (*checks).container},
	{"cgroup-driver", docsPage + "errors", (*checks).driver},
	{"nri", docsPage + "nri", (*checks).served},
	{"pods-api", docsPage + "pods-that-are-not-where-they-belong", (*checks).pods},
	{"cpu-manager", docsPage + "the-audit", (*checks).cpuManager},
	{"eviction-kernel", docsPage + "it-evicts", (*checks).evictionKernel},
	{"eviction-api", docsPage + "it-evicts", (*checks).evictionAPI},
	{"events", docsPage + "events-and-the-condition-of-the-node", (*checks).events},
	{"swap", docsPage + "swap-and-systemd-oomd", (*checks).swap},
	{"systemd-oomd", docsPage + "swap-and-systemd-oomd", (*checks).oomd},
	{"service", docsPage + "messages-of-the-monitor", (*checks).service},
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
	cgroups cgroupfs.FS
	options options.Options

	desired *node.Desired
	config  *kubeletconfig.Config
	yields  bool
}

func saying(g Grade, format string, args ...any) []Finding {
	return []Finding{{Grade: g, Found: fmt.Sprintf(format, args...)}}
}

// changing is saying with a change.
func changing(g Grade, change, format string, args ...any) []Finding {
	return []Finding{{Grade: g, Found: fmt.Sprintf(format, args...), Change: change}}
}

// slice compares the running partition with the configuration.
func (c *checks) slice(context.Context) []Finding {
	want := c.desired.Partition
	if want == nil {
		return nil
	}
	path := unitname.CgroupPath(unitname.System.Slice())
	limits, err := c.cgroups.Limits(path)
	const reload = "systemctl daemon-reload"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return changing(
			Error, "systemctl daemon-reload, and then systemctl start slices.target; is partition-generator installed?",
			"%s is not active", unitname.System.Slice(),
		)
	case err != nil:
		return saying(Error, "%v", err)
	case c.desired.Deferral != nil:
		return saying(Warning, "%s: memory.max is %s; the configured %d takes effect when partition-monitor has evicted down to it",
			unitname.System.Slice(), maxText(limits.MemoryMax), want.MemoryLimit)
	}
	var found []Finding
	differs := func(file, is, wanted string) {
		found = append(
			found,
			changing(Error, reload, "%s: %s is %s; the configuration asks for %s", unitname.System.Slice(), file, is, wanted)...)
	}
	if want.MemoryLimit == 0 && limits.MemoryMax != cgroupfs.Unlimited {
		differs("memory.max", maxText(limits.MemoryMax), "none")
	}
	if limit := uint64(want.MemoryLimit); want.MemoryLimit > 0 && limits.MemoryMax != wholePages(limit) {
		differs("memory.max", maxText(limits.MemoryMax), fmt.Sprint(want.MemoryLimit))
	}
	if high, ok := c.file(path, "memory.high"); ok {
		wanted := "max"
		if want.MemoryHigh > 0 {
			wanted = fmt.Sprint(wholePages(uint64(want.MemoryHigh)))
		}
		if high != wanted {
			differs("memory.high", high, wanted)
		}
	}
	if text, ok := c.file(path, "cpuset.cpus"); ok {
		if cpus, err := cpuset.Parse(text); err == nil && !cpus.Equals(want.CPUs) && (!want.CPUs.IsEmpty() || !c.all(cpus)) {
			differs("cpuset.cpus", strconv.Quote(text), strconv.Quote(want.CPUs.String()))
		}
	}
	if found == nil {
		found = saying(OK, "%s is active with its limits", unitname.System.Slice())
	}
	return found
}

// all reports whether these are all CPUs that pods have. A partition that had a cpuset and has
// processes gets all CPUs in place of none.
func (c *checks) all(cpus cpuset.CPUSet) bool {
	_, pods, err := c.cgroups.CPUs(unitname.CgroupPath(unitname.Default.Slice()))
	return err == nil && pods.IsSubsetOf(cpus)
}

// reserved checks the cgroups that the kubelet expects: it does not start without them, nor without
// the controllers.
func (c *checks) reserved(context.Context) []Finding {
	expected := c.desired.Reserved.Slices
	if len(expected) == 0 {
		return saying(OK, "the kubelet expects no cgroup for reserved resources")
	}
	const file = "cgroup.controllers"
	root, _ := c.file("", file)
	var found []Finding
	for _, s := range expected {
		cgroup := unitname.CgroupPath(s.Name)
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
				Error, "systemctl daemon-reload, and then systemctl restart kubelet",
				"%s: no cgroup with the controllers %s; the kubelet does not start with %s in enforceNodeAllocatable (%s)",
				s.Name, strings.Join(missing, ", "), s.For, s.File,
			)...)
		}
	}
	if found == nil {
		found = saying(OK, "the cgroups that the kubelet expects exist, with their controllers")
	}
	return found
}

// wholePages rounds a limit down to whole pages, as the kernel does.
func wholePages(bytes uint64) uint64 { return bytes &^ (uint64(os.Getpagesize()) - 1) }

// file reads a file of a cgroup. It returns false if the file cannot be read, for example because
// its controller is off.
func (c *checks) file(cgroup, name string) (string, bool) {
	data, err := os.ReadFile(filepath.Join(c.cgroups.Path(cgroup), name))
	return strings.TrimSpace(string(data)), err == nil
}

func maxText(value uint64) string {
	if value == cgroupfs.Unlimited {
		return "max"
	}
	return fmt.Sprint(value)
}

func (c *checks) service(ctx context.Context) []Finding {
	if service := control.Ready(ctx, c.options.Listen); service != "ready" {
		return saying(Warning, "%s", service)
	}
	return saying(OK, "ready, metrics at http://%s/metrics", c.options.Listen)
}
