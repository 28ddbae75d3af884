//go:build node

package onnode

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/pkg/podmove/livemove"
)

// container is a scope like that of a runtime, and the destination of its move.
type container struct {
	*scope
	cgroup, newCgroup string
	request           livemove.Request
}

// id is a container ID that no container has.
const id = "b05b05b05b05b05b05b05b05b05b05b05b05b05b05b05b05b05b05b05b05b05b"

// startContainer starts a scope and returns when at least that many processes are in it, all of
// them the script's. At first systemd-run itself is in the scope, for up to a second on a busy
// machine.
func startContainer(tb testing.TB, uid string, processes int, script string, properties ...string) container {
	tb.Helper()
	name := "cri-containerd-" + id + ".scope"
	from, fromCgroup := pod(uid + "from")
	to, toCgroup := pod(uid + "to")
	s := startScope(tb, from, name, script, append([]string{"Delegate=yes", "DefaultDependencies=no"}, properties...)...)
	tb.Cleanup(func() {
		for _, slice := range []string{from, to} {
			_ = exec.Command("systemctl", "stop", slice).Run()
		}
	})
	eventually(tb, "the processes of "+name+" run", func() bool {
		pids := strings.Fields(file(tb, fromCgroup+"/"+name, "cgroup.procs"))
		return len(pids) >= processes && !slices.ContainsFunc(pids, func(pid string) bool {
			comm, err := os.ReadFile("/proc/" + pid + "/comm")
			return err == nil && strings.HasPrefix(string(comm), "systemd-run")
		})
	})
	return container{s, fromCgroup + "/" + name, toCgroup + "/" + partition.LiveScope(name), livemove.Request{
		Scope: name, Cgroup: fromCgroup + "/" + name, TargetSlice: to, NewName: partition.LiveScope(name),
		Description: "Container of kube-system/" + uid,
	}}
}

func mover(tb testing.TB, s livemove.Systemd) livemove.Mover {
	tb.Helper()
	return livemove.Mover{Systemd: s, Cgroups: tree, StateDir: filepath.Join(tb.TempDir(), "moving")}
}

// wantWhole: no process is left behind or frozen, and no record stays.
func (c container) wantWhole(tb testing.TB, m livemove.Mover) {
	tb.Helper()
	eventually(tb, "the old scope is gone", func() bool {
		_, err := os.Stat(filepath.Join(cgroups.Mount, c.cgroup))
		return errors.Is(err, os.ErrNotExist)
	})
	if got := file(tb, c.newCgroup, "cgroup.freeze"); got != "0" {
		tb.Errorf("cgroup.freeze is %s", got)
	}
	if file(tb, c.newCgroup, "cgroup.procs") == "" {
		// A chain may be between two links at one reading, but not at two.
		if file(tb, c.newCgroup, "cgroup.procs") == "" && strings.Contains(file(tb, c.newCgroup, "cgroup.events"), "populated 0") {
			tb.Error("there is nothing in the new scope")
		}
	}
	if left, _ := filepath.Glob(filepath.Join(m.StateDir, "*")); len(left) > 0 {
		tb.Errorf("records stay: %v", left)
	}
}

// TestLiveMoveBesideV1: somebody has mounted a hierarchy of cgroup v1, and /proc/PID/cgroup has
// another line.
func TestLiveMoveBesideV1(t *testing.T) {
	dir := t.TempDir()
	shell(t, "mount -t cgroup -o none,name=other none "+dir)
	t.Cleanup(func() { shell(t, "umount "+dir) })
	m := mover(t, connect(t, systemd.Options{}))
	box := startContainer(t, "besidev1", 1, "exec sleep 1000")
	if err := m.Move(t.Context(), box.request); err != nil {
		t.Fatal(err)
	}
	box.wantWhole(t, m)
}

func TestLiveMove(t *testing.T) {
	c := connect(t, systemd.Options{})
	m := mover(t, c)
	t.Setenv("WRITTEN", filepath.Join(t.TempDir(), "written"))
	box := startContainer(t, "plain", 3, `head -c 20000000 /dev/zero >"$WRITTEN"; sleep 1000 & sleep 1001 & wait`,
		"MemoryMax=300M", "MemoryLow=10M", "CPUWeight=33", "CPUQuota=25%", "TasksMax=123", "AllowedCPUs=0-1", "DevicePolicy=strict",
		"DeviceAllow=/dev/null rw", "DeviceAllow=char-pts rw", "IOWeight=50", "IOReadBandwidthMax=/dev/vda 10M", "IPAddressDeny=10.1.0.0/16",
		"KillMode=mixed", "TimeoutStopSec=7s")
	// The runtime enables controllers for its scopes that systemd does not know.
	shell(t, "cd /sys/fs/cgroup; for d in . $(echo "+filepath.Dir(box.cgroup)+" | sed 's|/| |g'); do cd $d; echo +hugetlb >cgroup.subtree_control; done")
	for name, value := range map[string]string{
		"memory.oom.group": "1", "cpu.max": "12345 67000", "cpu.max.burst": "1000", "hugetlb.2MB.max": "4194304",
		"memory.high": "100000000", "io.max": "254:0 wiops=77", "cgroup.max.depth": "3",
	} {
		if err := os.WriteFile(filepath.Join(cgroups.Mount, box.cgroup, name), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const shown = "MemoryMax,MemoryLow,CPUWeight,CPUQuotaPerSecUSec,CPUQuotaPeriodUSec,TasksMax,AllowedCPUs,DevicePolicy,DeviceAllow,IOWeight," +
		"IOReadBandwidthMax,IPAddressDeny,KillMode,TimeoutStopUSec,Delegate,OOMPolicy"
	properties := shell(t, "systemctl show -p "+shown+" "+box.name+" | sort")
	controls := controlFiles(t, box.cgroup)
	pids := file(t, box.cgroup, "cgroup.procs")

	if err := mover(t, running{m.Systemd, t}).Move(t.Context(), box.request); err != nil {
		t.Fatal(err)
	}
	box.wantWhole(t, m)
	if got := file(t, box.newCgroup, "cgroup.procs"); len(strings.Fields(got)) < 3 || !strings.Contains(pids, strings.Fields(got)[0]) {
		t.Errorf("moved %q of %q", got, pids)
	}
	if got := shell(t, "systemctl show -p "+shown+" "+box.request.NewName+" | sort"); got != properties {
		t.Errorf("properties before:\n%s\nafter:\n%s", properties, got)
	}
	if got := controlFiles(t, box.newCgroup); got != controls {
		t.Errorf("control files before:\n%s\nafter:\n%s", controls, got)
	}

	t.Run("and back", func(t *testing.T) {
		name, ok := partition.RuntimeScope(box.request.NewName), partition.IsLiveMoved(box.request.NewName)
		if !ok || name != box.name {
			t.Fatalf("the runtime's name is %q", name)
		}
		back := box
		from, _ := pod("plainfrom")
		back.request = livemove.Request{Scope: box.request.NewName, Cgroup: box.newCgroup, TargetSlice: from, NewName: name, Description: "back"}
		back.cgroup, back.newCgroup = box.newCgroup, box.cgroup
		if err := m.Move(t.Context(), back.request); err != nil {
			t.Fatal(err)
		}
		back.wantWhole(t, m)
		if got := controlFiles(t, back.newCgroup); got != controls {
			t.Errorf("control files before:\n%s\nafter:\n%s", controls, got)
		}
		if err := c.StopScope(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := c.StopScope(t.Context(), name); err != nil {
			t.Errorf("stopping what is gone: %v", err)
		}
		wantNothingLeft(t, id)
		if err := m.Move(t.Context(), back.request); !errors.Is(err, livemove.ErrGone) {
			t.Errorf("moving what is gone: %v", err)
		}
	})
}

// controlFiles lists the control files that can be set in a cgroup, of the controllers that it has.
func controlFiles(tb testing.TB, cgroup string) string {
	tb.Helper()
	return shell(tb, "cd /sys/fs/cgroup/"+cgroup+" || exit; grep -Hs . cpu.idle cpu.weight cpu.max cpu.max.burst cpuset.cpus cpuset.mems hugetlb.*.max io.max io.weight memory.*max memory.high memory.low memory.min memory.oom.group pids.max cgroup.max.depth; true")
}

// TestLiveMoveKeepsProperties: the new scope has the properties of the old one, both the original
// and the changed ones. It keeps its limits when systemd reads its files again and when systemd
// applies all properties because one has changed.
func TestLiveMoveKeepsProperties(t *testing.T) {
	c := connect(t, systemd.Options{})
	m := mover(t, c)
	box := startContainer(t, "set", 2, "sleep 1000 & wait",
		"MemoryMax=300M", "MemoryHigh=250M", "MemoryLow=10M", "MemoryMin=1M", "MemorySwapMax=50M", "CPUWeight=33", "CPUQuota=25%", "CPUQuotaPeriodSec=67ms",
		"TasksMax=123", "AllowedCPUs=0-1", "AllowedMemoryNodes=0", "IOWeight=50", "DevicePolicy=strict", "DeviceAllow=/dev/null rw", "DeviceAllow=char-pts rw",
		"KillMode=mixed", "TimeoutStopSec=7s")
	for _, command := range []string{
		"set-property --runtime " + box.name + " MemoryMax=200M MemoryHigh=infinity CPUQuota=30% DeviceAllow= 'DeviceAllow=/dev/zero r' TasksMax=infinity CPUWeight=idle",
		"set-property --runtime " + box.name + " CPUWeight=77 CPUQuota=",
		"daemon-reload",
		// systemd 252 stores CPUs so that they may be added to others or replace them.
		"set-property --runtime " + box.name + " AllowedCPUs=0 CPUQuota=40%",
		"set-property --runtime " + box.name + " AllowedCPUs=0-1",
	} {
		shell(t, "systemctl "+command)
	}
	properties := func(name string) map[string]any {
		t.Helper()
		all, err := c.ScopeProperties(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return carried(all)
	}
	want, controls := properties(box.name), controlFiles(t, box.cgroup)
	if err := m.Move(t.Context(), box.request); err != nil {
		t.Fatal(err)
	}
	box.wantWhole(t, m)
	name := box.request.NewName
	for _, command := range []string{"is-active " + name, "daemon-reload", "set-property --runtime " + name + " CPUWeight=77", "daemon-reexec"} {
		shell(t, "systemctl "+command)
		if got := properties(name); !reflect.DeepEqual(got, want) {
			t.Errorf("properties before:\n%v\nafter %s:\n%v\n%s", want, command, got, shell(t, "systemctl cat "+name))
		}
		if got := controlFiles(t, box.newCgroup); got != controls {
			t.Errorf("control files before:\n%s\nafter %s:\n%s", controls, command, got)
		}
	}
	stopScope(t, c, name)
}

// carried returns the carried properties in a form that can be compared.
func carried(old systemd.Properties) map[string]any {
	all := map[string]any{}
	for _, p := range livemove.Properties(old, "a.slice", "") {
		switch value := p.Value.(type) {
		case []systemd.DeviceRule:
			p.Value = slices.SortedFunc(slices.Values(value), func(a, b systemd.DeviceRule) int { return strings.Compare(a.Node, b.Node) })
		case []byte:
			p.Value = string(bytes.TrimRight(value, "\x00")) // systemd returns the whole buffer of a set
		}
		all[p.Name] = p.Value
	}
	return all
}

// TestDeviceRules: a container can never open a device that it could not open before the move,
// neither during it nor afterwards.
func TestDeviceRules(t *testing.T) {
	const probe = `exec 3>"$OUT"; while :; do if (exec </dev/kmsg) 2>/dev/null; then echo open >&3; else echo refused >&3; fi; (exec </dev/null) || echo no null >&3; sleep 0.01; done`
	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("OUT", out)
	c := connect(t, systemd.Options{})
	rules := []string{"DevicePolicy=strict", "DeviceAllow=/dev/null rwm"}
	seen := func(word string) bool {
		data, _ := os.ReadFile(out)
		return bytes.Contains(data, []byte(word))
	}
	lines := func() int {
		data, _ := os.ReadFile(out)
		return bytes.Count(data, []byte("\n"))
	}
	wait := func() {
		n := lines()
		eventually(t, "more openings", func() bool { return lines() > n+20 })
	}
	box := startContainer(t, "dev", 1, probe, rules...)
	wait()
	m := mover(t, c)
	if err := m.Move(t.Context(), box.request); err != nil {
		t.Fatal(err)
	}
	wait()
	shell(t, "systemctl daemon-reload")
	wait()
	if seen("open") || seen("no null") || !seen("refused") {
		t.Errorf("the device rules do not hold: %s", shell(t, "sort $OUT | uniq -c"))
	}
	stopScope(t, c, box.request.NewName)

	t.Run("not carried", func(t *testing.T) {
		box := startContainer(t, "devn", 1, probe, rules...)
		m := mover(t, forgetful{c})
		if err := m.Move(t.Context(), box.request); err != nil {
			t.Fatal(err)
		}
		wait()
		if !seen("open") {
			t.Error("without the rules the device is not to be opened either: this test shows nothing")
		}
		stopScope(t, c, box.request.NewName)
	})
}

// stopScope stops a scope, of which nothing may stay behind.
func stopScope(t *testing.T, c *systemd.Client, name string) {
	t.Helper()
	if err := c.StopScope(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, id)
}

// running is a systemd that is to freeze no scope: a container that does not fork is moved while it
// runs.
type running struct {
	livemove.Systemd
	t *testing.T
}

func (r running) Freeze(ctx context.Context, name string) error {
	r.t.Errorf("%s is frozen", name)
	return r.Systemd.Freeze(ctx, name)
}

// forgetful is a systemd that does not return the device rules.
type forgetful struct{ livemove.Systemd }

func (f forgetful) ScopeProperties(ctx context.Context, name string) (systemd.Properties, error) {
	all, err := f.Systemd.ScopeProperties(ctx, name)
	delete(all, "DevicePolicy")
	delete(all, "DeviceAllow")
	return all, err
}

// killer freezes the container when its new scope exists, as for one that forks all the time, and
// kills its own process, so that no later step runs.
type killer struct {
	livemove.Systemd
	scope string
}

func (k killer) StartScope(ctx context.Context, name string, properties []systemd.Property, pids []uint32) error {
	if err := k.Systemd.StartScope(ctx, name, properties, pids); err != nil {
		return err
	}
	if err := k.Freeze(ctx, k.scope); err != nil {
		return err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	select {}
}

// moveAndDie runs in the process that is to be killed.
func moveAndDie() {
	c := systemd.New(systemd.Options{Cgroups: tree})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() { _ = c.Run(ctx) }()
	var r livemove.Request
	r.Scope, r.Cgroup, r.TargetSlice, r.NewName = os.Getenv("SCOPE"), os.Getenv("CGROUP"), os.Getenv("SLICE"), os.Getenv("NEWNAME")
	m := livemove.Mover{Systemd: killer{c, r.Scope}, Cgroups: tree, StateDir: os.Getenv("STATE")}
	err := m.Move(ctx, r)
	println("not killed:", err)
}

// TestKilledWhileFrozen: the process that moves a container is killed while the container is
// frozen.
func TestKilledWhileFrozen(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ONNODE", exe)
	box := startContainer(t, "kill", 1, `exec "$ONNODE" chain`)
	state := filepath.Join(t.TempDir(), "moving")
	cmd := exec.Command(exe, "move-and-die")
	cmd.Env = append(os.Environ(), "SCOPE="+box.name, "CGROUP="+box.cgroup, "SLICE="+box.request.TargetSlice, "NEWNAME="+box.request.NewName, "STATE="+state)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it ended with %v\n%s", err, out)
	}
	if got := file(t, box.cgroup, "cgroup.freeze"); got != "1" {
		t.Fatalf("cgroup.freeze is %s: it does not stand still", got)
	}
	c := connect(t, systemd.Options{})
	m := livemove.Mover{Systemd: c, Cgroups: tree, StateDir: state}
	if err := m.Move(t.Context(), box.request); !errors.Is(err, livemove.ErrPaused) {
		t.Errorf("a move before the recovery: %v", err)
	}
	if err := m.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := file(t, box.cgroup, "cgroup.events"); !strings.Contains(got, "frozen 0") {
		t.Fatalf("after the recovery: %s", got)
	}
	if err := m.Move(t.Context(), box.request); err != nil {
		t.Fatal(err)
	}
	box.wantWhole(t, m)
	stopScope(t, c, box.request.NewName)
}
