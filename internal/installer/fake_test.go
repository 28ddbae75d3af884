package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	generatorPath = "/usr/lib/systemd/system-generators/partition-generator"
	servicePath   = "/usr/lib/systemd/system/partition-monitor.service"
	monitorPath   = "/usr/bin/partition-monitor"
	folder        = "/var/lib/node-partition/installer"
	systemSlice   = "/sys/fs/cgroup/kubepods.slice/kubepods-system.slice"
	sliceUnit     = "/run/systemd/generator/kubepods-system.slice"
	trialTime     = 10 * time.Minute
	section       = "systemPartition: {memoryLimit: 1Gi, namespaces: [kube-system]}\n"
	otherSection  = "systemPartition: {memoryLimit: 2Gi, namespaces: [kube-system]}\n"
)

// killed ends the program before a step, as a panic.
type killed struct{}

// node is a node in a folder. It is the Runner of its Host: systemd, the generator and the monitor,
// as far as a rollout sees them.
type node struct {
	t    *testing.T
	root string
	h    *Host
	now  trialend.Moment
	// steps lists what was done to the node. At the step killAt it is killed.
	steps  []string
	killAt int
	// killStep is a step at which it is killed.
	killStep string
	// active holds the units that run. The timer of the rollback is one of them.
	active map[string]bool
	// between is the state of a monitor that is not active, such as activating; empty for inactive.
	between string
	// findings has what check finds.
	findings []state.Finding
	problems []string // of the section
	// fails has the answer of programs that fail, by the beginning of their command lines.
	fails map[string]string
	// static is a static pod, which comes into the partition by itself, and does not leave it.
	static   bool
	readOnly bool
	notReady string
	answered bool // the API server was asked whether the node is Ready
	deaf     bool // the API server answers once, and then no more
	pods     []kubeapi.PodState
	hidden   error // of PodsOn before the section is applied; nil for none
	alone    bool  // without a cluster
	said     []string
	calls    int
	// aliases has the paths at which a host with another layout has files.
	aliases  map[string]string
	goesBack bool   // the service of the rollback runs
	applied  func() // called when a trial has begun; nil for none
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{
		t: t, root: t.TempDir(), now: trialend.Moment{Boot: "one", Since: time.Hour},
		active: map[string]bool{"containerd.service": true}, fails: map[string]string{}, aliases: map[string]string{},
		pods: []kubeapi.PodState{{Pod: kubeapi.Pod{UID: "u1", Namespace: "kube-system", Name: "dns"}, Ready: true}},
	}
	for _, folder := range []string{
		"/usr/bin", "/usr/libexec", "/usr/lib/systemd/system", "/usr/lib/systemd/system-generators", "/usr/lib/systemd/catalog",
		"/etc/systemd/system/multi-user.target.wants", "/etc/kubernetes", "/run/systemd/generator", "/proc",
		"/var/lib/node-partition/installer",
	} {
		if err := os.MkdirAll(n.path(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.write("/sys/fs/cgroup/cgroup.controllers", "cpu memory")
	n.write("/sys/fs/cgroup/kubepods.slice/memory.max", "16G")
	n.write("/proc/cmdline", "quiet")
	n.write("/var/lib/kubelet/config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n")
	n.write("/etc/systemd/system/multi-user.target.wants/other.service", "")
	disk := Disk{Root: host.Root(n.root), Step: n.step, Sync: func(*os.File) error { return nil }}
	n.h = &Host{
		Store: Store{Disk: disk, Folder: folder}, Programs: n,
		Cluster: func() (Cluster, error) {
			if n.alone {
				return nil, nil
			}
			return n, nil
		},
		Now:   func() (trialend.Moment, error) { return n.now, nil },
		Label: func(string) (string, error) { return "system_u:object_r:bin_t:s0", nil },
		Say:   func(format string, args ...any) { n.said = append(n.said, fmt.Sprintf(format, args...)) },
	}
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.root, name) }

func (n *node) write(name, text string) {
	n.t.Helper()
	n.remove(name) // not through a link
	testkit.WriteFile(n.t, n.path(name), text)
}

// read returns the content of a file, empty for none. It follows links as the node does.
func (n *node) read(name string) string {
	if alias, is := n.aliases[name]; is {
		name = alias
	}
	data, err := host.Root(n.root).ReadFile(name, 1<<20)
	if err != nil {
		return ""
	}
	return string(data)
}

// exists reports whether anything is at a path, such as a link.
func (n *node) exists(name string) bool {
	_, err := os.Lstat(n.path(name))
	return err == nil
}

func (n *node) remove(name string) {
	n.t.Helper()
	if err := os.RemoveAll(n.path(name)); err != nil {
		n.t.Fatal(err)
	}
}

// step notes a change of the node, before it happens.
func (n *node) step(what string) {
	n.steps = append(n.steps, what)
	if n.killAt > 0 && len(n.steps) == n.killAt || what == n.killStep {
		panic(killed{})
	}
}

// survives reports whether f ends without being killed.
func survives(f func()) (alive bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
		}
	}()
	f()
	return true
}

// tree returns the files of the node, but for the installer's folder and the kernel's.
func (n *node) tree() map[string]string {
	n.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(n.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := "/" + strings.TrimPrefix(strings.TrimPrefix(path, n.root), "/")
		if name == folder {
			return filepath.SkipDir
		}
		if entry.IsDir() {
			if name != "/run/node-partition" { // stays until the next boot
				all[name] = "folder"
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		var text string
		if info.Mode()&fs.ModeSymlink != 0 {
			text, err = os.Readlink(path)
		} else {
			text = n.read(name)
		}
		all[name] = fmt.Sprintf("%v %s", info.Mode(), text)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return all
}

// inFolder lists what is in the installer's folder.
func (n *node) inFolder() []string {
	n.t.Helper()
	entries, err := os.ReadDir(n.path(folder))
	if err != nil {
		n.t.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// compare reports what differs in two trees.
func compare(before, after map[string]string) []string {
	var all []string
	for name, was := range before {
		if is, ok := after[name]; !ok {
			all = append(all, "gone: "+name)
		} else if is != was {
			all = append(all, fmt.Sprintf("changed: %s: %q to %q", name, was, is))
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			all = append(all, "new: "+name)
		}
	}
	slices.Sort(all)
	return all
}

// isAsBefore reports what differs on the node, and when.
func (n *node) isAsBefore(before map[string]string, when any) {
	n.t.Helper()
	for _, d := range compare(before, n.tree()) {
		n.t.Errorf("%v: %s", when, d)
	}
}

// order makes the program that of a version, and returns an order for that and a section.
func (n *node) order(version, section string) record.Order {
	n.h.Version = version
	n.h.Payload = fstest.MapFS{
		monitorFile: {Data: []byte("monitor " + version)}, generatorFile: {Data: []byte("generator " + version)},
		serviceFile: {Data: []byte(strings.Join([]string{
			"[Service]", "Environment=PARTITION_MONITOR_ARGS=", "ExecStart=/usr/bin/partition-monitor run $PARTITION_MONITOR_ARGS", "",
		}, "\n"))},
		catalogFile: {Data: []byte("catalog " + version)},
	}
	return record.Order{Action: record.Apply, Node: "node-1", Section: section, Trial: trialTime}
}

// do has the installer do what is ordered.
func (n *node) do(o record.Order) record.Outcome { return n.doWithin(n.t.Context(), o) }

func (n *node) doWithin(ctx context.Context, o record.Order) record.Outcome {
	n.calls++
	return n.h.Do(ctx, n.call(), o)
}

// call returns the ID of the last call.
func (n *node) call() string { return fmt.Sprint("call-", n.calls) }

// mustApply makes a node that has a version and a section.
func (n *node) mustApply(version, section string) {
	n.t.Helper()
	if o := n.do(n.order(version, section)); o.Status != record.Done {
		n.t.Fatalf("%s: %+v", version, o)
	}
}

// takeOff removes all from the node.
func (n *node) takeOff() record.Outcome { return n.do(record.Order{Action: record.Remove}) }

// killedAt does what is ordered, and kills the installer before a step. It reports whether there
// were as many.
func (n *node) killedAt(step int, do func()) bool {
	n.killAt = len(n.steps) + step
	alive := survives(do)
	n.killAt = 0
	return !alive
}

func (n *node) state() record.State {
	n.t.Helper()
	state, err := n.h.State()
	if err != nil {
		n.t.Fatal(err)
	}
	return state
}

// stick keeps a file from being written and removed, until free is called.
func (n *node) stick(name string) (free func()) {
	n.t.Helper()
	other := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".installing")
	n.write(filepath.Join(other, "full"), "")
	return func() { n.remove(other) }
}

// failsAfter makes programs fail once another one has run, until free is called.
func (n *node) failsAfter(first, then string) (free func()) {
	begun := false
	n.h.Programs = around{n, func(_ context.Context, line string) *ran {
		begun = begun || line == first
		if begun && strings.HasPrefix(line, then) {
			return &ran{err: errors.New("too busy")}
		}
		return nil
	}}
	return func() { n.h.Programs = n }
}

// reboot empties /run, and starts what a boot starts.
func (n *node) reboot() {
	n.t.Helper()
	n.now = trialend.Moment{Boot: n.now.Boot + "+", Since: time.Minute}
	n.remove("/run")
	n.remove(systemSlice)
	clear(n.active)
	n.active["containerd.service"] = true
	if err := os.MkdirAll(n.path("/run/systemd/generator"), 0o755); err != nil {
		n.t.Fatal(err)
	}
	n.generate()
	n.startSlices()
	n.startMonitor()
	if n.exists(bootLink.path) {
		n.mustBack()
	}
}

func (n *node) mustBack() {
	n.t.Helper()
	if err := n.back(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// back is the service of the rollback.
func (n *node) back(ctx context.Context) error {
	n.goesBack = n.read(filepath.Join(unitFolder, backService)) != ""
	defer func() { n.goesBack = false }()
	return n.h.Back(ctx, false)
}

// inForce returns the section that the generator reads.
func (n *node) inForce() string {
	for _, name := range []string{kubeletconfig.TrialPath, kubeletconfig.OverridePath} {
		if text := n.read(name); text != "" {
			return text
		}
	}
	return ""
}

// generate is the generator of this project.
func (n *node) generate() {
	n.remove(sliceUnit)
	if text := n.inForce(); n.read(generatorPath) != "" && strings.Contains(text, "namespaces") {
		n.write(sliceUnit, text)
	}
}

func (n *node) startSlices() {
	if text := n.read(sliceUnit); text != "" {
		n.write(systemSlice+"/memory.max", text)
		n.write(systemSlice+"/cgroup.events", "populated 0\n")
		if n.static {
			n.write(systemSlice+"/kubepods-system-podabc.slice/cgroup.procs", "1")
			n.write(systemSlice+"/cgroup.events", "populated 1\n")
		}
	}
}

// startMonitor starts the monitor, which empties a partition that is switched off, and ends.
func (n *node) startMonitor() bool {
	if n.read(servicePath) == "" || strings.Contains(n.read(servicePath), "--bogus") {
		return false
	}
	switch {
	case n.read(sliceUnit) != "":
		n.active["partition-monitor.service"] = true
	case n.static:
		n.active["partition-monitor.service"] = true // it waits for the pod
	default:
		n.active["partition-monitor.service"] = false
		n.remove(systemSlice)
	}
	return true
}

// Run implements Runner.
func (n *node) Run(ctx context.Context, name string, args ...string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	line := filepath.Base(name) + " " + strings.Join(args, " ")
	for beginning, text := range n.fails {
		if strings.HasPrefix(line, beginning) {
			return "", fmt.Errorf("%s: %s", line, text)
		}
	}
	switch filepath.Base(name) {
	case "systemctl":
		return n.systemctl(ctx, line, args)
	case "systemd-run":
		n.step(line)
		if !strings.Contains(line, " --no-block ") || !strings.Contains(line, " --property=After="+backService+" ") {
			n.t.Errorf("%s: the service that runs it waits for it, or is ended by it", line)
		}
		if !strings.Contains(line, " --property=Restart=on-failure ") || !strings.Contains(line, " --property=StartLimitBurst=") {
			n.t.Errorf("%s: a reload that systemd refuses is not tried again, or for ever", line)
		}
		return "", nil
	}
	if !strings.HasPrefix(n.read(strings.TrimPrefix(name, n.root)), "monitor") {
		return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return n.monitor(line, args)
}

// errNotFound is systemctl's error for a unit that is not there.
var errNotFound = errors.New("systemctl start: unit not found")

func (n *node) systemctl(ctx context.Context, line string, args []string) (string, error) {
	if args[0] != "show" {
		n.step(line)
	}
	unit := args[len(args)-1]
	switch args[0] {
	case "show":
		return n.show(args), nil
	case "daemon-reload":
		if n.goesBack && n.read(filepath.Join(unitFolder, backService)) == "" {
			n.t.Error("a reload without the unit file of the way back ends a way back that takes long")
		}
		n.generate()
	case "start", "restart", "try-restart":
		switch unit {
		case "slices.target":
			n.startSlices()
		case backService:
			if n.read(filepath.Join(unitFolder, backService)) == "" {
				return "", errNotFound
			}
			if err := n.back(ctx); err != nil {
				return "", err
			}
		case "partition-monitor.service":
			if args[0] == "try-restart" && !n.active[unit] {
				break
			}
			n.active[unit] = false
			if !n.startMonitor() {
				return "", errNotFound
			}
		default:
			n.active[unit] = true
		}
	case "set-property":
		n.startSlices()
	case "stop":
		n.active[unit] = false
		if unit == filepath.Base(systemSlice) {
			n.remove(systemSlice)
		}
	}
	return "", nil
}

func (n *node) show(args []string) string {
	units := args[slices.Index(args, "--")+1:]
	blocks := make([]string, 0, len(units))
	for _, unit := range units {
		state := "inactive"
		if n.active[unit] || unit == filepath.Base(systemSlice) && n.read(systemSlice+"/memory.max") != "" || unit == "-.mount" {
			state = "active"
		} else if unit == "partition-monitor.service" && n.between != "" {
			state = n.between
		}
		options := "rw,relatime"
		if n.readOnly {
			options = "ro,relatime"
		}
		blocks = append(blocks, fmt.Sprintf("Id=%s\nActiveState=%s\nWhere=/\nOptions=%s\n", unit, state, options))
	}
	return strings.Join(blocks, "\n")
}

// answer returns v as a program does that has found a problem, or none.
func answer(v any, bad bool) (string, error) {
	data, err := json.Marshal(v)
	if bad {
		err = errors.New("exit status 1")
	}
	return string(data), err
}

func (n *node) monitor(line string, args []string) (string, error) {
	switch args[0] {
	case "run":
		if args[1] != "--help" || strings.Contains(line, "--help=") || strings.Contains(line, "--h=") {
			n.t.Errorf("%s: the installer runs a monitor beside the service", line)
		}
		return "", nil
	case "validate":
		problems := make([]map[string]string, 0, len(n.problems))
		for _, p := range n.problems {
			problems = append(problems, map[string]string{"file": "node-partition.yaml", "field": "systemPartition.memoryLimit", "message": p})
		}
		return answer(map[string]any{
			"valid": len(problems) == 0, "problems": problems,
			"partitions": []map[string]any{{"name": "system", "namespaces": []string{"kube-system"}}},
		}, len(problems) > 0)
	case "check":
		return answer(state.Findings{Findings: n.findings}, len(n.findings) > 0)
	case "status":
		partitions := []map[string]string{}
		if n.read(systemSlice+"/memory.max") != "" {
			partitions = append(partitions, map[string]string{"name": "system", "slice": filepath.Base(systemSlice)})
		}
		service := "ready"
		if !n.active["partition-monitor.service"] {
			service = "does not run"
		}
		return answer(map[string]any{"partitions": partitions, "service": service, "pods": []any{}}, false)
	}
	n.step(line)
	switch {
	case args[0] == "keep":
		n.write(kubeletconfig.OverridePath, n.read(kubeletconfig.TrialPath))
		n.step("in keep")
		n.remove(kubeletconfig.TrialPath)
		n.remove(trialend.AboutFile)
		n.generate()
	case args[1] == "--end":
		n.remove(kubeletconfig.TrialPath)
		n.remove(trialend.AboutFile)
		n.step("in try --end")
		n.generate()
		n.startSlices()
		n.startMonitor()
	default:
		n.write(trialend.AboutFile, "{}")
		n.write(kubeletconfig.TrialPath, n.read(strings.TrimPrefix(args[1], n.root)))
		n.step("in try")
		n.generate()
		n.startSlices()
		n.startMonitor()
		if n.applied != nil {
			n.applied()
		}
	}
	return "", nil
}

// onApplied calls f when the section is in force.
func (n *node) onApplied(f func()) { n.applied = f }

// enforce makes SELinux enforce, with this label on all files.
func (n *node) enforce(label string) {
	n.write("/sys/fs/selinux/enforce", "1")
	n.h.Label = func(string) (string, error) { return label, nil }
}

// kubelet adds a line to the kubelet's configuration.
func (n *node) kubelet(line string) {
	n.write("/var/lib/kubelet/config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+line+"\n")
}

// podState and podID are short for the tables.
type (
	podState = kubeapi.PodState
	podID    = kubeapi.Pod
)

// NotReady implements Cluster.
func (n *node) NotReady(ctx context.Context, _ string) (string, error) {
	if n.answered && n.deaf {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	n.answered = true
	return n.notReady, nil
}

// PodsOn implements Cluster.
func (n *node) PodsOn(context.Context, string) ([]kubeapi.PodState, error) {
	if n.hidden != nil && n.state().Rollout == nil {
		return nil, n.hidden
	}
	return n.pods, nil
}
