package host

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodepartition/internal/installer/manifest"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/sandbox"
	"nodepartition/internal/installer/store"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/state"
)

// TestRoll: a node gets programs and a section, and the way back is gone afterwards. A second roll
// of the same changes nothing, and another version replaces the files of the first.
func TestRoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustRoll("r1", "v1", section)
		if n.read(kubeletconfig.OverridePath) != section || n.read(monitorPath) != "monitor v1" || !n.active["partition-monitor.service"] {
			t.Fatalf("kept: %+v", n.tree())
		}
		if n.read("/usr/share/fish/vendor_completions.d/a.fish") != "" {
			t.Error("a folder was made for completions of a shell that the host has not")
		}
		for _, name := range backPaths() {
			if n.read(name) != "" {
				t.Errorf("%s is left", name)
			}
		}
		if n.active[backTimer] {
			t.Error("the timer of the way back runs on")
		}
		if n.read(filepath.Join(store.Folder, store.Payload, monitorPath)) != "" {
			t.Error("the payload is left")
		}
		steps := len(n.steps)
		if same, err := n.h.Same(); err != nil || !same || len(n.steps) != steps {
			t.Errorf("same: %t, %v, after %v", same, err, n.steps[steps:])
		}
		n.mustRoll("r2", "v2", section)
		if n.read(monitorPath) != "monitor v2" || n.read("/usr/share/man/man8/old.8") != "" || n.read("/usr/share/man/man8/new.8") != "new" {
			t.Errorf("after the second version: %v", n.tree())
		}
		if slices.ContainsFunc(n.steps[steps:], func(s string) bool { return strings.HasPrefix(s, "partition-monitor") }) {
			t.Errorf("a version alone tries no section: %v", n.steps[steps:])
		}
		n.mustRoll("r3", "v2", otherSection)
		if n.read(kubeletconfig.OverridePath) != otherSection {
			t.Errorf("section %q", n.read(kubeletconfig.OverridePath))
		}
		if same, err := n.h.Same(); err != nil || !same {
			t.Errorf("same: %t, %v", same, err)
		}
		n.write(monitorPath, "changed")
		if same, _ := n.h.Same(); same {
			t.Error("a file was changed, and the node has the same")
		}
	})
}

// TestKilledAnywhere: the installer is killed before each step, and the whole roll is gone. When
// the time is over, or after a reboot, the node is as before, or the roll is finished.
func TestKilledAnywhere(t *testing.T) {
	for name, prepare := range map[string]func(*node) manifest.Order{
		"first": func(n *node) manifest.Order { return n.order("new", "v1", section) },
		"version": func(n *node) manifest.Order {
			n.mustRoll("old", "v1", section)
			return n.order("new", "v2", section)
		},
		"section": func(n *node) manifest.Order {
			n.mustRoll("old", "v1", section)
			return n.order("new", "v1", otherSection)
		},
		"first, with a section": func(n *node) manifest.Order {
			n.write(kubeletconfig.OverridePath, section)
			return n.order("new", "v1", section)
		},
		"fails": func(n *node) manifest.Order {
			n.notReady = "the kubelet is gone"
			return n.order("new", "v1", section)
		},
	} {
		for _, reboots := range []bool{false, true} {
			ends := "timer"
			if reboots {
				ends = "reboot"
			}
			t.Run(name+"/"+ends, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					kept, back := 0, 0
					for at := 1; ; at++ {
						n := newNode(t)
						o := prepare(n)
						before, active := n.tree(), maps.Clone(n.active)
						n.killAt = len(n.steps) + at
						if survives(func() { n.roll(o) }) {
							break
						}
						n.killAt = 0
						last := n.steps[len(n.steps)-1]
						n.now.Since += trialTime
						if reboots {
							n.reboot()
						} else if n.active[backTimer] {
							n.mustBack()
						}
						if n.state().Roll != nil {
							// The way back was not armed yet. Its own unit files are all that there
							// is, and the next pod has the node go back.
							if name := unarmed(before, n.tree()); name != "" && n.now.Boot == "one" {
								t.Errorf("killed before %q: no way back, and %s", last, name)
							}
							n.mustBack()
						}
						if service := filepath.Join(unitFolder, backService); reboots && n.read(service) != "" {
							// It was killed before it could remove the last file, which nothing
							// starts.
							if n.read(bootLink.path) != "" || !strings.HasSuffix(last, service) {
								t.Errorf("killed before %q: the way back was started, and is left", last)
							}
							n.mustBack()
						}
						state := n.state()
						switch {
						case state.Roll != nil:
							t.Errorf("killed before %q: the roll is left: %+v", last, state.Roll.Stage)
						case state.Kept != nil && state.Kept.Roll == "new":
							kept++
							if n.read(kubeletconfig.OverridePath) == "" || n.read(monitorPath) == "" {
								t.Errorf("killed before %q: kept, and not in place", last)
							}
						default:
							back++
							after := n.tree()
							if reboots {
								dropRuntime(before, after)
							} else if n.active["partition-monitor.service"] != active["partition-monitor.service"] {
								t.Errorf("killed before %q: the monitor runs: %t", last, n.active["partition-monitor.service"])
							}
							for _, d := range compare(before, after) {
								t.Errorf("killed before %q: %s", last, d)
							}
						}
						for _, name := range backPaths() {
							if n.read(name) != "" {
								t.Errorf("killed before %q: %s is left", last, name)
							}
						}
					}
					if back < 5 || kept == 0 && name != "fails" {
						t.Errorf("%d went back, %d were kept: the test does not kill any more", back, kept)
					}
				})
			})
		}
	}
}

// unarmed returns the first difference between trees that is not a file of the way back.
func unarmed(before, after map[string]string) string {
	for _, d := range compare(before, after) {
		if !strings.Contains(d, "partition-install-back") && !strings.Contains(d, "timers.target.wants") {
			return d
		}
	}
	return ""
}

// dropRuntime removes what a boot makes again from trees.
func dropRuntime(trees ...map[string]string) {
	for _, tree := range trees {
		maps.DeleteFunc(tree, func(name, _ string) bool {
			return strings.HasPrefix(name, "/run") || strings.HasPrefix(name, "/sys")
		})
	}
}

// TestStageFails: in each stage, the node is as before, and the outcome says so and why.
func TestStageFails(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(*node)
		status outcome.Status
		reason outcome.Reason
		says   string
	}{
		"install":   {func(n *node) { n.fails["systemctl try-restart"] = "Access denied" }, outcome.WentBack, outcome.Verify, "Access denied"},
		"the timer": {func(n *node) { n.fails["systemctl restart "+backTimer] = "bad unit" }, outcome.WentBack, outcome.Failed, "bad unit"},
		"apply":     {func(n *node) { n.fails["partition-monitor try /"] = "pods would be evicted at once" }, outcome.WentBack, outcome.Section, "evicted at once"},
		"verify, the node": {
			func(n *node) { n.notReady = "KubeletNotReady: PLEG" }, outcome.WentBack, outcome.Verify, "PLEG",
		},
		"verify, the API server answers once": {
			func(n *node) { n.notReady, n.deaf = "KubeletNotReady: PLEG", true }, outcome.WentBack, outcome.Verify, "PLEG",
		},
		"verify, a member": {func(n *node) {
			n.fails = map[string]string{}
			n.pods = []podState{{UID: "u1", Namespace: "kube-system", Name: "dns", Ready: true}}
			n.onApplied(func() { n.pods[0].Ready = false })
		}, outcome.WentBack, outcome.Verify, "kube-system/dns was Ready"},
		"verify, a member that was evicted": {func(n *node) {
			n.onApplied(func() {
				n.pods = []podState{
					{UID: "u1", Namespace: "kube-system", Name: "dns", Ended: true, Failed: true},
					{UID: "u2", Namespace: "kube-system", Name: "dns-in-its-place"},
				}
			})
		}, outcome.WentBack, outcome.Verify, "kube-system/dns was Ready before the roll, and has failed"},
		"verify, check": {
			func(n *node) {
				n.onApplied(func() { n.findings = []state.Finding{{Check: "slice", Grade: state.Error, Found: "memory.max is max"}} })
			}, outcome.WentBack, outcome.Check, "memory.max is max",
		},
		"keep":      {func(n *node) { n.fails["partition-monitor keep"] = "disk full" }, outcome.WentBack, outcome.Failed, "disk full"},
		"preflight": {func(n *node) { n.problems = []string{"4GB: is 4Gi meant?"} }, outcome.Refused, outcome.Section, "is 4Gi meant"},
		"the monitor does not start": {
			func(n *node) { n.fails["partition-monitor status --wait"] = "not ready after 9m" }, outcome.WentBack, outcome.Verify, "not ready",
		},
		"a static pod stays": {
			func(n *node) { n.static, n.notReady = true, "gone" }, outcome.Remains, outcome.Verify, "kubepods-system.slice is active",
		},
		"try --end fails": {
			func(n *node) {
				n.notReady = "gone"
				n.fails["partition-monitor try --end"] = "the bus is gone"
			}, outcome.Remains, outcome.Verify, "the node is not as before",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				before := n.tree()
				test.spoil(n)
				got := n.roll(n.order("r1", "v1", section))
				if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Text(), test.says) {
					t.Errorf("%+v; want %d, %s, %q", got, test.status, test.reason, test.says)
				}
				differ := compare(before, n.tree())
				if test.status != outcome.Remains && len(differ) > 0 {
					t.Errorf("says that the node is as before: %v", differ)
				}
				if test.status == outcome.Remains && strings.Contains(got.Text(), "is as before:") {
					t.Errorf("says that the node is as before: %s", got.Text())
				}
			})
		})
	}
}

// TestVerifyMembers: members that were deleted or have done their work since, and failed pods that
// were not Ready before, keep no roll from its end.
func TestVerifyMembers(t *testing.T) {
	for name, pods := range map[string][]podState{
		"deleted":        {{UID: "u1", Namespace: "kube-system", Name: "dns", Ended: true}},
		"gone":           {},
		"failed before":  {{UID: "u0", Namespace: "kube-system", Name: "old", Ended: true, Failed: true}},
		"not one of its": {{UID: "u0", Namespace: "default", Name: "web"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.onApplied(func() { n.pods = pods })
			if got := n.roll(n.order("r1", "v1", section)); got.Status != outcome.Done {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}

// TestVerifySays: a verification says that members are Ready only if it has asked for them.
func TestVerifySays(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*node)
		want    string
		not     string
		joins   bool // the node has credentials when it is verified
	}{
		"asked":          {func(*node) {}, "the node and its members are Ready", "not known", false},
		"no cluster":     {func(n *node) { n.alone = true }, "Ready was not asked for", "members are Ready", false},
		"joins":          {func(n *node) { n.alone = true }, "is not known: the node had no credentials", "members are Ready", true},
		"members hidden": {func(n *node) { n.hidden = errors.New("pods is forbidden") }, "is not known: pods is forbidden", "members are Ready", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			test.prepare(n)
			o := n.order("r1", "v1", section)
			n.doFirst(3, o)
			n.alone = n.alone && !test.joins
			got := n.do(sandbox.Verify, o)
			if got.Status != outcome.Done || !strings.Contains(got.Text(), test.want) || strings.Contains(got.Text(), test.not) {
				t.Errorf("%s: %+v; want %q", name, got, test.want)
			}
			// The program that waits ends before its caller, and says why.
			left := trialTime - (n.now.Since - time.Hour)
			want := "--timeout=" + (left - margin - 2*time.Second).String()
			if n.waited != want {
				t.Errorf("%s: %q; want %q", name, n.waited, want)
			}
		})
	}
}

// TestBadSettings: options with which the monitor does not start leave no slice behind.
func TestBadSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		o := n.order("r1", "v1", section)
		const settings = "PARTITION_MONITOR_ARGS=--bogus\n"
		n.write(filepath.Join(store.Folder, store.Settings), settings)
		o.Settings = store.Digest([]byte(settings))
		if got := n.roll(o); got.Status != outcome.WentBack || got.Reason != outcome.Verify {
			t.Errorf("%+v", got)
		}
		for _, d := range compare(before, n.tree()) {
			t.Error(d)
		}
	})
}

// TestSettingsStay: a roll without options of the monitor leaves the file of an earlier roll as it
// is, also if it was edited. An uninstallation removes it, unless it was edited.
func TestSettingsStay(t *testing.T) {
	for _, edited := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			settings := "PARTITION_MONITOR_ARGS=--listen=0.0.0.0:9948\n"
			o := n.order("r1", "v1", section)
			n.write(filepath.Join(store.Folder, store.Settings), settings)
			o.Settings = store.Digest([]byte(settings))
			if got := n.roll(o); got.Status != outcome.Done {
				t.Fatalf("%+v", got)
			}
			if edited {
				settings = "PARTITION_MONITOR_ARGS=--debug\n"
				n.write(settingsPath, settings)
			}
			n.remove(filepath.Join(store.Folder, store.Settings)) // the pod of the next roll has none
			n.mustRoll("r2", "v2", section)
			n.mustRoll("r3", "v2", otherSection)
			if got := n.read(settingsPath); got != settings {
				t.Errorf("edited: %t: %s has %q; want %q", edited, settingsPath, got, settings)
			}
			n.do(sandbox.Uninstall, n.order("u1", "v2", otherSection))
			if got := n.read(settingsPath); (got != "") != edited {
				t.Errorf("edited: %t: after the uninstallation %s has %q", edited, settingsPath, got)
			}
		})
	}
}

// TestPreflight: each reason for a refusal, before anything is written.
func TestPreflight(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(*node)
		reason outcome.Reason
	}{
		"cgroup v1": {func(n *node) { n.remove("/sys/fs/cgroup/cgroup.controllers") }, outcome.CgroupV1},
		"cgroup v1, and check cannot run": {func(n *node) {
			n.remove("/sys/fs/cgroup/cgroup.controllers")
			n.fails["systemctl"] = "no"
			n.fails["partition-monitor"] = "no"
		}, outcome.CgroupV1},
		"a foreign file":     {func(n *node) { n.write(monitorPath, "mine") }, outcome.ForeignFile},
		"a package":          {func(n *node) { n.write(dpkgList, "/.") }, outcome.ForeignFile},
		"an extension":       {func(n *node) { n.write(extension, "ID=debian") }, outcome.ForeignFile},
		"a file at a folder": {func(n *node) { n.write(manifest.Docs, "mine") }, outcome.ForeignFile},
		"another prefix":     {func(n *node) { n.write("/etc/systemd/system-generators/partition-generator", "x") }, outcome.ForeignFile},
		"another section":    {func(n *node) { n.write(kubeletconfig.OverridePath, otherSection) }, outcome.ForeignFile},
		"a read-only /usr":   {func(n *node) { n.readOnly = true }, outcome.ReadOnlyUsr},
		"SELinux":            {func(n *node) { n.enforce("system_u:object_r:unlabeled_t:s0") }, outcome.SELinux},
		"SELinux, of a pod":  {func(n *node) { n.enforce("system_u:object_r:container_file_t:s0:c1,c2") }, outcome.SELinux},
		"the kubelet's gate": {func(n *node) { n.kubelet("featureGates: {NodeSystemPartition: true}") }, outcome.KubeletGate},
		"cgroupfs":           {func(n *node) { n.kubelet("cgroupDriver: cgroupfs") }, outcome.Cgroupfs},
		"cgroupfs, by the pods": {func(n *node) {
			n.remove("/sys/fs/cgroup/kubepods.slice")
			n.write("/sys/fs/cgroup/kubepods/cgroup.procs", "")
		}, outcome.Cgroupfs},
		"cgroupfs, by check": {func(n *node) {
			n.findings = []state.Finding{{Check: "cgroup-driver", Grade: state.Error, Found: "the runtime uses cgroupfs"}}
		}, outcome.Cgroupfs},
		"check": {func(n *node) {
			n.findings = []state.Finding{{Check: "runtime", Grade: state.Error, Found: "does not answer"}}
		}, outcome.Check},
		"the section":          {func(n *node) { n.problems = []string{"not a quantity"} }, outcome.Section},
		"a trial":              {func(n *node) { n.write(kubeletconfig.TrialPath, section) }, outcome.Check},
		"the kernel's switch":  {func(n *node) { n.write("/proc/cmdline", "quiet node_partition=0") }, outcome.Check},
		"another pod's files":  {func(n *node) { n.write(filepath.Join(store.Folder, store.Payload, monitorPath), "monitor other") }, outcome.Failed},
		"another pod's wishes": {func(n *node) { n.write(filepath.Join(store.Folder, store.Section), otherSection) }, outcome.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			o := n.order("r1", "v1", section)
			test.spoil(n)
			before := n.tree()
			for _, stage := range []sandbox.Stage{sandbox.Preflight, sandbox.Install} {
				if stage == sandbox.Install && (test.reason == outcome.Section || test.reason == outcome.Check && n.findings != nil || name == "cgroupfs, by check") {
					continue // what the programs find is asked once
				}
				got := n.do(stage, o)
				if got.Status != outcome.Refused || got.Reason != test.reason {
					t.Errorf("%s: %+v; want %s", stage, got, test.reason)
				}
			}
			if len(n.steps) > 0 {
				t.Errorf("something was done: %v", n.steps)
			}
			if d := compare(before, n.tree()); len(d) > 0 {
				t.Errorf("something was written: %v", d)
			}
		})
	}
}

// TestBothRefused: version and section change in two rolls, and one roll runs at a time.
func TestBothRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustRoll("r1", "v1", section)
		if got := n.do(sandbox.Preflight, n.order("r2", "v2", otherSection)); got.Status != outcome.Refused || !strings.Contains(got.Text(), "second roll") {
			t.Errorf("%+v", got)
		}
		o := n.order("r3", "v2", section)
		if got := n.do(sandbox.Install, o); got.Status != outcome.Done {
			t.Fatalf("%+v", got)
		}
		if got := n.do(sandbox.Install, n.order("r4", "v3", section)); got.Status != outcome.Refused || !strings.Contains(got.Text(), "roll r3 has not ended") {
			t.Errorf("%+v", got)
		}
		unlock, err := n.h.Lock(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		if got := n.do(sandbox.Uninstall, o); got.Status != outcome.Refused || !strings.Contains(got.Text(), "another stage") {
			t.Errorf("%+v", got)
		}
		// A stage of the roll waits: the way back may have the lock at the deadline.
		time.AfterFunc(time.Minute, unlock)
		if got := n.do(sandbox.Apply, o); got.Status != outcome.Done {
			t.Errorf("%+v", got)
		}
	})
}

// TestReplacedMeanwhile: another pod replaces what the roll has in the installer's folder. Nothing
// of that is installed or tried.
func TestReplacedMeanwhile(t *testing.T) {
	const imports = "imports = [\"/etc/containerd/conf.d/*.toml\"]\n"
	for name, test := range map[string]struct {
		after int // the stages that end well
		path  string
		text  string
		says  string
	}{
		"the section":     {2, filepath.Join(store.Folder, store.Section), otherSection, "the section is not the one of this roll"},
		"a file":          {1, filepath.Join(store.Folder, store.Payload, servicePath), "[Service] other", servicePath + " belongs to another roll"},
		"the settings":    {1, filepath.Join(store.Folder, store.Settings), "other", store.Settings + " belongs to another roll"},
		"the NRI version": {1, containerdConfig, "version = 2\n" + imports, containerdConfig + " was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.write(containerdConfig, "version = 3\n"+imports)
				n.write("/etc/containerd/conf.d/other.toml", "")
				o := n.order("r1", "v1", section)
				const settings = "PARTITION_MONITOR_ARGS=\n"
				n.write(filepath.Join(store.Folder, store.Settings), settings)
				o.Settings, o.NRI = store.Digest([]byte(settings)), "containerd"
				n.doFirst(test.after, o)
				next := stages[test.after]
				if next == sandbox.Install {
					// It has planned the roll when it is killed, and is called again.
					for at := 1; n.state().Roll == nil; at++ {
						n.killAt = len(n.steps) + at
						if survives(func() { n.do(next, o) }) {
							t.Fatal("was not killed")
						}
					}
					n.killAt = 0
				}
				n.write(test.path, test.text)
				got := n.do(next, o)
				if got.Status != outcome.WentBack || !strings.Contains(got.Text(), test.says) {
					t.Errorf("%+v; want %q", got, test.says)
				}
			})
		})
	}
}

// TestNRI: the drop-in of a runtime comes and goes with a restart of the runtime, which is named.
func TestNRI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		o := n.order("r1", "v1", section)
		o.NRI = "containerd"
		if got := n.do(sandbox.Preflight, o); got.Status != outcome.Refused || got.Reason != outcome.Check {
			t.Errorf("without a configuration of containerd: %+v", got)
		}
		n.write(containerdConfig, "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n")
		n.write("/etc/containerd/conf.d/other.toml", "")
		before := n.tree()
		o = n.order("r1", "v1", section)
		o.NRI = "containerd"
		if got := n.do(sandbox.Preflight, o); got.Status != outcome.Done {
			t.Fatalf("%+v", got)
		}
		got := n.do(sandbox.Install, o)
		if got.Status != outcome.Done || !strings.Contains(got.Text(), "containerd.service was restarted") {
			t.Errorf("%+v", got)
		}
		path := dropIns()[0].path
		if text := n.read(path); !strings.Contains(text, "version = 3\n") || !strings.Contains(text, "disable = false") {
			t.Errorf("%s: %q", path, text)
		}
		restarts := func() int {
			return len(slices.DeleteFunc(slices.Clone(n.steps), func(s string) bool { return s != "systemctl restart containerd.service" }))
		}
		if restarts() != 1 {
			t.Errorf("%d restarts", restarts())
		}
		n.now.Since += trialTime
		n.mustBack()
		if d := compare(before, n.tree()); len(d) > 0 || restarts() != 2 {
			t.Errorf("%v, %d restarts", d, restarts())
		}
		n.write(nriSocket, "")
		o = n.order("r2", "v1", section)
		o.NRI = "containerd"
		if got := n.roll(o); got.Status != outcome.Done || restarts() != 2 || n.read(path) != "" {
			t.Errorf("with NRI that is served: %+v, %d restarts", got, restarts())
		}
	})
}

// TestInstallAgain: install is killed, somebody changes or makes a file that it writes, and install
// is called again. The file stays, and is named.
func TestInstallAgain(t *testing.T) {
	for name, path := range map[string]string{"written": servicePath, "not yet written": generatorPath, "to be removed": "/usr/share/man/man8/old.8"} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.mustRoll("old", "v1", section)
			o := n.order("r1", "v2", section)
			for at := 1; n.read(servicePath) != "[Service] v2"; at++ {
				n.killAt = len(n.steps) + at
				if survives(func() { n.do(sandbox.Install, o) }) {
					t.Fatal("was not killed")
				}
			}
			n.killAt = 0
			n.write(path, "mine")
			got := n.do(sandbox.Install, o)
			if got.Status != outcome.Remains || got.Reason != outcome.ForeignFile || !strings.Contains(got.Text(), path+": was changed") {
				t.Errorf("%s: %+v", name, got)
			}
			if n.read(path) != "mine" {
				t.Errorf("%s: what somebody has written is gone", name)
			}
		})
	}
}

// around is a Runner that asks before each program, by its command line. With a result or an error
// from before, the program does not run.
type around struct {
	Runner
	before func(ctx context.Context, line string) (*Ran, error)
}

// Run implements Runner.
func (a around) Run(ctx context.Context, name string, args ...string) (Ran, error) {
	ran, err := a.before(ctx, filepath.Base(name)+" "+strings.Join(args, " "))
	switch {
	case ran != nil:
		return *ran, err
	case err != nil:
		return Ran{}, err
	}
	return a.Runner.Run(ctx, name, args...)
}

// TestHangs: a program that never returns, as the restart of a runtime with TimeoutStartSec=0, ends
// its stage before the deadline: the way back needs the lock. After the rename of the section the
// roll is kept all the same.
func TestHangs(t *testing.T) {
	for name, test := range map[string]struct {
		stage  sandbox.Stage
		hangs  string // the beginning of a command line
		runs   bool   // the program has done its work when it hangs
		within time.Duration
		status outcome.Status
		reason outcome.Reason
	}{
		"install":                {sandbox.Install, "systemctl restart crio.service", false, trialTime - margin, outcome.WentBack, outcome.Verify},
		"install, a reload":      {sandbox.Install, "systemctl daemon-reload", false, trialTime - margin, outcome.WentBack, outcome.Timeout},
		"apply":                  {sandbox.Apply, "partition-monitor try /", false, trialTime - margin, outcome.WentBack, outcome.Timeout},
		"apply, after its start": {sandbox.Apply, "partition-monitor try /", true, trialTime - margin, outcome.WentBack, outcome.Timeout},
		"keep":                   {sandbox.Keep, "partition-monitor keep", false, trialTime, outcome.WentBack, outcome.Timeout},
		"keep, after the rename": {sandbox.Keep, "partition-monitor keep", true, trialTime, outcome.Done, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.write("/etc/crio/crio.conf.d/other.conf", "")
				before := n.tree()
				o := n.order("r1", "v1", section)
				o.NRI = "crio"
				for _, stage := range stages[:slices.Index(stages, test.stage)] {
					if got := n.do(stage, o); got.Status != outcome.Done {
						t.Fatalf("%s: %+v", stage, got)
					}
				}
				hung := false
				n.h.Programs = around{n, func(ctx context.Context, line string) (*Ran, error) {
					if !strings.HasPrefix(line, test.hangs) || hung {
						return nil, nil
					}
					hung = true
					if test.runs {
						n.monitor(line, strings.Fields(line)[1:])
					}
					select {
					case <-ctx.Done():
					case <-time.After(2 * trialTime):
					}
					return &Ran{}, context.Cause(ctx)
				}}
				began := time.Now()
				got := n.do(test.stage, o)
				if took := time.Since(began); !hung || took > test.within {
					t.Errorf("hung: %t, for %s; want %s or less", hung, took, test.within)
				}
				if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Text(), errTime.Error()) {
					t.Errorf("%+v; want %d, %s, %q", got, test.status, test.reason, errTime)
				}
				if test.status == outcome.Done {
					if kept := n.state().Kept; kept == nil || n.read(kubeletconfig.OverridePath) != section {
						t.Errorf("not kept: %+v", kept)
					}
					return
				}
				for _, d := range compare(before, n.tree()) {
					t.Error(d)
				}
			})
		})
	}
}
