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
	"time"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/monitor/apiserver"
	"nodepartition/internal/monitor/control"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/monitor/trial"
	"nodepartition/internal/systemctl"
	"nodepartition/internal/unitname"
	partition "nodepartition/pkg/slices"
	"nodepartition/pkg/slices/config"
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

func (c *checks) configuration(context.Context) []Finding {
	var found []Finding
	desired, err := node.ReadDesired()
	c.desired = desired
	c.config, _ = kubeletconfig.Load(hostfs.FS("/")) // the same error as that of ReadDesired
	for _, warning := range desired.Warnings {
		found = append(found, Finding{Grade: Warning, Found: warning})
	}
	if desired.KubeletsFile != "" {
		found = append(found, Finding{Grade: Warning, Found: desired.KubeletsFile})
	}
	looked := c.config.Looked
	switch p := desired.Partition; {
	case desired.ManagedByKubelet != "":
		c.yields = true
		found = append(found, Finding{Grade: Warning, Found: desired.ManagedByKubelet, Looked: looked})
	case err != nil:
		for i, problem := range config.Problems(err) {
			f := Finding{Grade: Error, Found: problem.Error()}
			if i == 0 {
				f.Looked = looked
			}
			found = append(found, f)
		}
	case p == nil:
		found = append(found, Finding{
			Grade:  Warning,
			Looked: looked,
			Found: fmt.Sprintf(
				"no systemPartition section, or switched off by %s=0 on the kernel command line: there is no partition to make",
				config.OffSwitch,
			),
		})
	default:
		found = append(found, Finding{
			Grade:  OK,
			Looked: looked,
			Found: fmt.Sprintf(
				"memoryLimit %s, cpuset %q, namespaces %s",
				limitText(p.MemoryLimit), p.CPUs, strings.Join(p.Namespaces, ", "),
			),
		})
	}
	return found
}

// trial warns of a running trial, and reports one that does not end as it should.
func (c *checks) trial(ctx context.Context) []Finding {
	const change = "partition-monitor keep makes it permanent, partition-monitor try --end goes back"
	running, err := trial.Read()
	switch {
	case err != nil:
		return changing(Warning, change, "%v", err)
	case running == nil:
		return saying(OK, "no trial is running")
	}
	if waits, err := trial.TimerRuns(ctx); err == nil && !waits {
		return changing(
			Error, change, "the trial of %s has no timer, and does not end by itself before the next boot",
			running.From,
		)
	}
	until := running.Until.Format(trial.TimeOfDay)
	if time.Since(running.Until) > time.Minute {
		return changing(
			Error, "journalctl -u "+trial.Unit+" shows what fails",
			"the trial of %s was to end at %s, and still runs", running.From, until,
		)
	}
	return changing(Warning, change, "%s is tried until %s", running.From, until)
}

// kubelet compares the command line of the running kubelet with the configuration that the
// generator reads.
func (c *checks) kubelet(context.Context) []Finding {
	kubelet, err := kubeletargs.Running(hostfs.FS("/"))
	if errors.Is(err, kubeletargs.ErrNotRunning) {
		return saying(OK, "%v: there is no command line to compare with", err)
	}
	if err != nil {
		return saying(Warning, "%v", err)
	}
	var found []Finding
	settings := "set %s=%s in " + kubeletconfig.SettingsPath + ", and systemctl daemon-reload"
	if file := kubelet.Config; file != "" && !slices.Contains(c.config.Files, filepath.Clean(file)) {
		found = append(found, changing(Warning, fmt.Sprintf(settings, "KUBELET_CONFIG", file),
			"the running kubelet was started with --config=%s, which is not read here: %s", file, orNone(c.config.Files))...)
	}
	if dir := kubelet.ConfigDir; dir != "" && !slices.ContainsFunc(c.config.Looked, func(l kubeletconfig.Look) bool {
		return l.Path == filepath.Clean(dir) || strings.HasPrefix(l.Path, filepath.Clean(dir)+"/")
	}) {
		found = append(found, changing(Warning, fmt.Sprintf(settings, "KUBELET_CONFIG_DIR", dir),
			"the running kubelet was started with --config-dir=%s, whose drop-ins are not read here", dir)...)
	}
	if reserved := kubelet.ReservedCPUs; reserved != "" && c.desired.Partition != nil {
		cpus, err := cpuset.Parse(reserved)
		if outside := c.desired.Partition.CPUs.Difference(cpus); err == nil && !outside.IsEmpty() {
			found = append(found, changing(
				Warning, "make systemPartition.cpuset a subset of them, or reserve more",
				"the running kubelet was started with --reserved-cpus=%s, without CPU %s of the partition: it may assign that to containers exclusively",
				reserved, outside,
			)...)
		}
	}
	if found == nil {
		found = saying(OK, "process %d uses the same configuration", kubelet.PID)
	}
	return found
}

func orNone(files []string) string {
	if len(files) == 0 {
		return "no file is"
	}
	return strings.Join(files, ", ") + " is"
}

// oldestSystemd is the minimum that README names. 249 of Ubuntu 22.04 sets no SYSTEMD_SCOPE for
// generators.
const oldestSystemd = 252

// ourUnits lists the units whose failure keeps the configuration from being applied.
var ourUnits = []string{
	unitname.System.Slice(),
	partition.ApplyPath,
	partition.ApplyService,
	partition.LateService,
	partition.ControllersService,
	unitname.MonitorService,
}

func (c *checks) systemd(ctx context.Context) []Finding {
	properties, err := systemctl.Show(ctx, "Version")
	if err != nil {
		return saying(Warning, "%v", err)
	}
	version := properties[0]["Version"]
	digits := strings.TrimLeft(version, "v")
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	var found []Finding
	if number, err := strconv.Atoi(digits); err == nil && number < oldestSystemd {
		found = append(
			found,
			changing(Error, "use a distribution that has it", "systemd %s: want %d or later", version, oldestSystemd)...)
	}
	units, err := systemctl.Show(ctx, "Id,LoadState,ActiveState,Result", ourUnits...)
	if err != nil {
		return append(found, saying(Warning, "%v", err)...)
	}
	for _, u := range units {
		switch {
		case u["ActiveState"] == "failed":
			found = append(
				found,
				changing(
					Error,
					fmt.Sprintf(
						"systemctl status %s shows why; then systemctl reset-failed %s && systemctl daemon-reload",
						u["Id"], u["Id"],
					),
					"%s has failed (%s)",
					u["Id"],
					u["Result"],
				)...)
		case u["LoadState"] == "masked":
			found = append(found, changing(Warning, "systemctl unmask "+u["Id"], "%s is masked", u["Id"])...)
		}
	}
	if found == nil {
		found = saying(OK, "systemd %s, and none of our units has failed", version)
	}
	return found
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
	case c.desired.Deferred:
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
		if cpus, err := cpuset.Parse(text); err == nil && !cpus.Equals(want.CPUs) && !(want.CPUs.IsEmpty() && c.all(cpus)) {
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

func (c *checks) container(ctx context.Context) []Finding {
	endpoint, name, version, err := c.runtime.Version(ctx)
	if err != nil {
		return saying(Error, "%v", err)
	}
	return saying(OK, "%s %s at %s", name, version, endpoint)
}

const setDriver = "set cgroupDriver: systemd for the kubelet, and SystemdCgroup = true for containerd (cgroup_manager = \"systemd\" for CRI-O)"

// driver checks that the cgroup driver is systemd. A kubelet uses the driver that the runtime
// reports (since 1.34), or else that of its own flag or file.
func (c *checks) driver(ctx context.Context) []Finding {
	client, err := c.runtime.Client(ctx)
	if err != nil {
		return nil // reported by the check runtime
	}
	told, err := client.CgroupDriver(ctx)
	if err != nil {
		return saying(Warning, "%v", err)
	}
	configured, from := c.config.Kubelet.CgroupDriver, "the kubelet's configuration"
	if kubelet, err := kubeletargs.Running(hostfs.FS("/")); err == nil && kubelet.CgroupDriver != "" {
		configured, from = kubelet.CgroupDriver, "the kubelet's --cgroup-driver"
	}
	switch {
	case told == "cgroupfs":
		return changing(Error, setDriver, "the runtime uses cgroupfs: its containers are in no slices of systemd")
	case told != "":
		return saying(OK, "systemd, reported by the runtime")
	case configured == "":
		return changing(
			Warning, setDriver,
			"the runtime does not report its driver, and the kubelet's configuration sets none: the default is cgroupfs",
		)
	case configured != "systemd":
		return changing(Error, setDriver, "%s, set by %s", configured, from)
	}
	return saying(OK, "systemd, set by %s; the runtime does not report its driver", from)
}

func (c *checks) served(ctx context.Context) []Finding {
	if err := node.Served(ctx, c.options.NRI); err != nil {
		return changing(
			Warning, "use a runtime that serves NRI (containerd 2.0, CRI-O 1.26), or switch it on in its configuration",
			"%v: containers are moved after they have started, and memory that they had charged stays outside", err,
		)
	}
	return saying(OK, "served at %s: containers are placed when they are created", c.options.NRI)
}

func (c *checks) pods(ctx context.Context) []Finding {
	if err := node.Served(ctx, c.options.PodsAPI); err != nil {
		return changing(Warning, "use kubelet 1.37, or the feature gate PodsAPI of 1.36",
			"%v: requests are taken from the runtime, and no pod is restarted to be moved", err)
	}
	return saying(OK, "served at %s", c.options.PodsAPI)
}

// evictionKernel checks that the kernel has what evictions use.
func (c *checks) evictionKernel(context.Context) []Finding {
	if c.options.Eviction.Off {
		return saying(OK, "--%s=off", options.FlagEviction)
	}
	path := unitname.CgroupPath(unitname.System.Slice())
	if _, ok := c.file(path, "memory.current"); !ok {
		return nil // there is no partition
	}
	var found []Finding
	if _, err := os.Stat(filepath.Join(c.cgroups.Path(path), "cgroup.kill")); err != nil {
		found = append(
			found,
			changing(
				Warning, "use kernel 5.14 or later",
				"the kernel has no cgroup.kill: pods are stopped through the runtime, which takes longer",
			)...)
	}
	if _, err := os.Stat(filepath.Join(c.cgroups.Path(path), "memory.pressure")); err != nil {
		found = append(found, changing(Warning, "remove psi=0 from the kernel command line, or add psi=1",
			"the kernel reports no memory pressure (PSI): eviction relies on polling alone")...)
	}
	if found == nil {
		found = saying(OK, "the kernel has cgroup.kill and PSI")
	}
	return found
}

// evictionAPI asks the API server whether it would accept the report of an eviction.
func (c *checks) evictionAPI(ctx context.Context) []Finding {
	if c.options.Eviction.Off || c.options.Eviction.Kubeconfig == options.KubeconfigNone {
		return saying(
			OK,
			"evictions are not reported to the API server (--%s, --%s)",
			options.FlagEviction,
			options.FlagKubeconfig,
		)
	}
	client, path, err := apiserver.Open(c.options.Eviction.Kubeconfig)
	if err != nil {
		return changing(Warning, "set a kubeconfig with --"+options.FlagKubeconfig+" if the node belongs to a cluster",
			"%v: pods are restarted, and not evicted for good", err)
	}
	namespace := "kube-system"
	if p := c.desired.Partition; p != nil {
		namespace = p.Namespaces[0]
	}
	err = client.Rights(ctx, namespace)
	switch {
	case errors.Is(err, kubeapi.ErrForbidden), errors.Is(err, kubeapi.ErrCredentials):
		return saying(Error, "%v", err)
	case err != nil:
		return saying(Warning, "%v", err)
	}
	return saying(OK, "%s accepts evictions with %s", client.Server(), path)
}

// oomd warns if systemd-oomd may kill in the partition. It kills whole cgroups below one that it
// watches, by rules of its own.
func (c *checks) oomd(ctx context.Context) []Finding {
	units, err := systemctl.Show(
		ctx,
		"Id,ActiveState,ManagedOOMSwap,ManagedOOMMemoryPressure",
		"systemd-oomd.service",
		"-.slice",
		"kubepods.slice",
		unitname.System.Slice(),
	)
	if err != nil {
		return nil // reported by the check systemd
	}
	var found []Finding
	running := false
	for _, u := range units {
		if u["Id"] == "systemd-oomd.service" {
			running = u["ActiveState"] == "active"
			continue
		}
		for _, property := range []string{"ManagedOOMSwap", "ManagedOOMMemoryPressure"} {
			if running && u[property] == "kill" {
				found = append(found, changing(
					Warning, fmt.Sprintf("systemctl set-property %s %s=auto", u["Id"], property),
					"%s has %s=kill: systemd-oomd may kill pods of the partition, in an order of its own",
					u["Id"], property,
				)...)
			}
		}
	}
	if found == nil {
		found = saying(OK, "does not kill in the partition")
	}
	return found
}

func (c *checks) service(ctx context.Context) []Finding {
	if service := control.Ready(ctx, c.options.Listen); service != "ready" {
		return saying(Warning, "%s", service)
	}
	return saying(OK, "ready, metrics at http://%s/metrics", c.options.Listen)
}

// limitText formats a memoryLimit.
func limitText(bytes int64) string {
	if bytes == 0 {
		return "none (the partition measures and weighs, and evicts no pod)"
	}
	return fmt.Sprint(bytes)
}
