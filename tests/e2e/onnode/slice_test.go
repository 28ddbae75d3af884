//go:build node

package onnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/systemd"
)

var limits = cgroups.Limits{
	MemoryMax: 200 << 20, MemoryHigh: cgroups.Unlimited,
	CPUWeight: 20, CPUQuotaPerSec: 250_000, CPUQuotaPeriod: 100_000, TasksMax: 100,
	Protection: cgroups.Protection{Min: 1 << 20, Low: 2 << 20},
}

// pod returns the name of a pod's slice in the project's form, and its cgroup.
func pod(uid string) (slice, cgroup string) {
	slice = "busprobe-burstable-pod" + uid + ".slice"
	return slice, "busprobe.slice/busprobe-burstable.slice/" + slice
}

func TestSlice(t *testing.T) {
	c := connect(t, systemd.Options{Documentation: "https://kep.k8s.io/5894"})
	slice, cgroup := pod("a")
	if err := c.EnsureSlice(t.Context(), slice, "Pod kube-system/a", limits); err != nil {
		t.Fatal(err)
	}
	wantLimits(t, cgroup, limits)
	status := shell(t, "systemctl status "+slice)
	for _, want := range []string{"Pod kube-system/a", "https://kep.k8s.io/5894", "transient"} {
		if !strings.Contains(status, want) {
			t.Errorf("systemctl status does not say %q:\n%s", want, status)
		}
	}

	t.Run("again", func(t *testing.T) {
		more := limits
		more.MemoryMax, more.CPUQuotaPerSec = cgroups.Unlimited, cgroups.Unlimited
		if err := c.EnsureSlice(t.Context(), slice, "Pod kube-system/b", more); err != nil {
			t.Fatal(err)
		}
		wantLimits(t, cgroup, more)
		if got := shell(t, "systemctl show --value -p Description "+slice); got != "Pod kube-system/b" {
			t.Errorf("Description is %q", got)
		}
	})
	for _, what := range []string{"daemon-reload", "daemon-reexec"} {
		t.Run(what, func(t *testing.T) {
			if err := c.SetLimits(t.Context(), slice, limits); err != nil {
				t.Fatal(err)
			}
			shell(t, "systemctl "+what)
			wantLimits(t, cgroup, limits)
			if err := c.SetCPUWeight(t.Context(), slice, 33); err != nil {
				t.Fatal(err)
			}
			if got := file(t, cgroup, "cpu.weight"); got != "33" {
				t.Errorf("cpu.weight is %s", got)
			}
		})
	}
	t.Run("stop", func(t *testing.T) {
		if err := c.StopSlice(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
		wantNothingLeft(t, slice)
		if err := c.StopSlice(t.Context(), slice); err != nil {
			t.Errorf("stopping it again: %v", err)
		}
	})
}

// TestWithoutLimits: the files exist for readers, and get their values later.
func TestWithoutLimits(t *testing.T) {
	c := connect(t, systemd.Options{})
	slice, cgroup := pod("n")
	if err := c.EnsureSlice(t.Context(), slice, "nothing", cgroups.NoLimits); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"memory.max", "cpu.weight", "cpu.max", "pids.max", "io.stat"} {
		file(t, cgroup, name)
	}
	wantLimits(t, cgroup, cgroups.NoLimits)
	if err := c.StopSlice(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, slice)
}

// TestImplicitSlice: the runtime starts the scope of a container before the slice of its pod
// exists, and systemd creates the slice implicitly.
func TestImplicitSlice(t *testing.T) {
	c := connect(t, systemd.Options{})
	slice, cgroup := pod("i")
	scope := startScope(t, slice, "busprobe-i.scope", "sleep 1000")
	wantLimits(t, cgroup, cgroups.NoLimits)
	if err := c.EnsureSlice(t.Context(), slice, "Pod kube-system/i", limits); err != nil {
		t.Fatal(err)
	}
	wantLimits(t, cgroup, limits)
	if got := shell(t, "systemctl show --value -p Description "+slice); got != "Pod kube-system/i" {
		t.Errorf("Description is %q", got)
	}
	shell(t, "systemctl daemon-reload")
	wantLimits(t, cgroup, limits)
	if err := c.StopSlice(t.Context(), slice); !errors.Is(err, systemd.ErrPopulated) {
		t.Errorf("StopSlice says %v, want that there are processes", err)
	}
	scope.stop(t)
	if err := c.StopSlice(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, slice)
}

// TestImplicitSliceWithLimits: systemd stores what was set on an implicitly created slice where it
// stores an operator's settings.
func TestImplicitSliceWithLimits(t *testing.T) {
	c := connect(t, systemd.Options{})
	slice, cgroup := pod("l")
	scope := startScope(t, slice, "busprobe-l.scope", "sleep 1000")
	if err := c.SetLimits(t.Context(), slice, limits); err != nil {
		t.Fatal(err)
	}
	t.Logf("files: %s", shell(t, "find /run/systemd -path '*"+slice+"*'"))
	more := limits
	more.MemoryMax *= 2
	if err := c.EnsureSlice(t.Context(), slice, "Pod kube-system/l", more); err != nil {
		t.Fatal(err)
	}
	wantLimits(t, cgroup, more)
	scope.stop(t)
	if err := c.StopSlice(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, slice)
}

// TestStopWhileStarting: a container that starts in a slice that is being stopped is not stopped
// with it.
func TestStopWhileStarting(t *testing.T) {
	// This client searches for processes in an empty folder.
	blind := connect(t, systemd.Options{Cgroups: cgroups.FS(t.TempDir())})
	c := connect(t, systemd.Options{})
	slice, cgroup := pod("w")
	scope := startScope(t, slice, "busprobe-w.scope", "sleep 1000")
	if err := blind.StopSlice(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	if !scope.running() {
		t.Fatal("the container was stopped with the slice")
	}
	if err := c.EnsureSlice(t.Context(), slice, "Pod", limits); err != nil {
		t.Fatal(err)
	}
	wantLimits(t, cgroup, limits)
	if got := shell(t, "systemctl is-active "+slice); got != "active" {
		t.Errorf("the slice is %s", got)
	}
	scope.stop(t)
	if err := c.StopSlice(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, slice)
}

// TestRevert reverts the weight and the protected memory of a slice that has a unit file.
func TestRevert(t *testing.T) {
	c := connect(t, systemd.Options{})
	shell(t, `mkdir -p /run/systemd/system /etc/systemd/system/busstatic.slice.d
printf '[Slice]\nMemoryMax=1G\n' >/run/systemd/system/busstatic.slice
printf '[Slice]\nTasksMax=77\n' >/etc/systemd/system/busstatic.slice.d/operator.conf
systemctl daemon-reload; systemctl start busstatic.slice`)
	t.Cleanup(func() {
		_ = exec.Command("/bin/sh", "-c", "systemctl stop busstatic.slice; rm -rf /run/systemd/system/busstatic.slice /etc/systemd/system/busstatic.slice.d; systemctl daemon-reload").Run()
	})
	if err := c.SetCPUWeight(t.Context(), "busstatic.slice", 55); err != nil {
		t.Fatal(err)
	}
	if got := file(t, "busstatic.slice", "cpu.weight"); got != "55" {
		t.Errorf("cpu.weight is %s", got)
	}
	if err := c.SetMemoryProtection(t.Context(), "busstatic.slice", cgroups.Protection{Min: 1 << 20, Low: 2 << 20}); err != nil {
		t.Fatal(err)
	}
	if least, low := file(t, "busstatic.slice", "memory.min"), file(t, "busstatic.slice", "memory.low"); least != "1048576" || low != "2097152" {
		t.Errorf("memory.min is %s, memory.low %s", least, low)
	}
	if got := shell(t, "ls /run/systemd/system.control/busstatic.slice.d | xargs"); got != "50-CPUWeight.conf 50-MemoryLow.conf 50-MemoryMin.conf" {
		t.Errorf("what was set is in %s", got)
	}
	if err := c.Revert(t.Context(), "busstatic.slice"); err != nil {
		t.Fatal(err)
	}
	if left := shell(t, "find /run/systemd/system.control -name 'busstatic*' 2>/dev/null; true"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	shell(t, "systemctl daemon-reload")
	if got := shell(t, "systemctl show --value -p TasksMax busstatic.slice"); got != "77" {
		t.Errorf("the operator's drop-in is gone: TasksMax is %s", got)
	}
	t.Logf("after Revert and a reload: CPUWeight=%s, cpu.weight %s", shell(t, "systemctl show --value -p CPUWeight busstatic.slice"), file(t, "busstatic.slice", "cpu.weight"))
}

// TestManySlices creates and stops slices while systemd reloads, re-executes, or loses its bus.
// Each of these takes an emulated node seconds. "make test-nodes" creates more slices.
func TestManySlices(t *testing.T) {
	count := 8
	if os.Getenv("LAB_EVERYTHING") != "" {
		count = 30
	}
	for what, command := range map[string]string{
		"daemon-reload": "systemctl daemon-reload",
		"daemon-reexec": "systemctl daemon-reexec",
		"dbus restart":  "systemctl restart dbus.service",
	} {
		t.Run(what, func(t *testing.T) {
			c := connect(t, systemd.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			churn := make(chan int, 1)
			go func() {
				n := 0
				for ; ctx.Err() == nil; n++ {
					_ = exec.Command("/bin/sh", "-c", command+"; sleep 0.5; systemctl reset-failed dbus.service dbus.socket 2>/dev/null").Run()
				}
				churn <- n
			}()
			for i := range count {
				slice, cgroup := pod(fmt.Sprintf("m%d", i))
				l := limits
				l.MemoryMax += uint64(i) << 20
				if err := c.EnsureSlice(t.Context(), slice, "Pod", l); err != nil {
					t.Fatal(err)
				}
				wantLimits(t, cgroup, l)
				if err := c.StopSlice(t.Context(), slice); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			t.Logf("%d slices while it was done %d times", count, <-churn)
			wantNothingLeft(t, "busprobe-burstable-podm")
		})
	}
}
