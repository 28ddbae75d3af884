package installer

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/state"
)

// changedBy returns the steps that change the node, and not only the installer's folder.
func changedBy(steps []string) []string {
	return slices.DeleteFunc(slices.Clone(steps), func(s string) bool { return strings.Contains(s, folder+"/") })
}

// TestApply: a node gets programs and a section, and the rollback is gone afterwards. A second call
// of the same changes nothing. Another version, another section, and both replace the first, and
// the links stay as they are.
func TestApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustApply("v1", section)
		if n.read(kubeletconfig.OverridePath) != section || n.read(monitorPath) != "monitor v1" || !n.active["partition-monitor.service"] {
			t.Fatalf("kept: %+v", n.tree())
		}
		for _, name := range backPaths() {
			if n.exists(name) {
				t.Errorf("%s is left", name)
			}
		}
		if n.active[backTimer] {
			t.Error("the timer of the way back runs on")
		}
		if got := n.inFolder(); !slices.Equal(got, []string{"state.json"}) {
			t.Errorf("the installer's folder has %q", got)
		}
		if is, err := n.h.Present(n.h.In(stateFile)); err != nil || is.Mode != 0o600 {
			t.Errorf("the state is for root alone: %+v, %v", is, err)
		}
		before := n.tree()
		n.steps = nil
		if got := n.do(n.order("v1", section)); got.Status != record.Done || got.Reason != record.Unchanged {
			t.Errorf("again: %+v", got)
		}
		if len(n.steps) > 0 || len(compare(before, n.tree())) > 0 {
			t.Errorf("again: %v", n.steps)
		}
		n.mustApply("v2", section)
		if n.read(monitorPath) != "monitor v2" {
			t.Errorf("after the second version: %v", n.tree())
		}
		if slices.ContainsFunc(n.steps, func(s string) bool {
			return strings.HasPrefix(s, "partition-monitor") || strings.HasSuffix(s, monitorPath) || strings.HasSuffix(s, generatorPath)
		}) {
			t.Errorf("a version alone tries no section, and writes no link: %v", n.steps)
		}
		n.mustApply("v2", otherSection)
		n.steps = nil
		n.mustApply("v3", section)
		if n.read(kubeletconfig.OverridePath) != section || n.read(monitorPath) != "monitor v3" {
			t.Errorf("both: %v", n.tree())
		}
		if versions, _ := filepath.Glob(n.path("/usr/libexec/node-partition/*")); len(versions) != 2 {
			t.Errorf("more than one version is left: %q", versions)
		}
		o := n.order("v3", section)
		o.MonitorArgs = "--listen=0.0.0.0:9948 --debug"
		if got := n.do(o); got.Status != record.Done || !strings.Contains(n.read(servicePath), `Environment="PARTITION_MONITOR_ARGS=--listen=0.0.0.0:9948 --debug"`) {
			t.Errorf("options of the monitor: %+v, %s", got, n.read(servicePath))
		}
		if got := n.do(o); got.Reason != record.Unchanged {
			t.Errorf("the same options: %+v", got)
		}
	})
}

// TestReadOnlyUsr: where /usr is read-only, the files are below /etc, and the service runs the
// program there.
func TestReadOnlyUsr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.readOnly = true
		before := n.tree()
		o := n.order("v1", section)
		// The fake's generator and monitor are there under these names, too.
		for from, to := range map[string]string{generatorPath: "/etc/systemd/system-generators/partition-generator", servicePath: "/etc/systemd/system/partition-monitor.service"} {
			n.aliases[from] = to
		}
		if got := n.do(o); got.Status != record.Done {
			t.Fatalf("%+v", got)
		}
		if n.read("/etc/systemd/node-partition/current/partition-monitor") != "monitor v1" || n.exists(monitorPath) {
			t.Errorf("%v", n.tree())
		}
		if !strings.Contains(n.read(servicePath), "\nExecStart=/etc/systemd/node-partition/current/partition-monitor run ") {
			t.Errorf("%s", n.read(servicePath))
		}
		if got := n.do(o); got.Reason != record.Unchanged {
			t.Errorf("again: %+v", got)
		}
		if got := n.takeOff(); got.Status != record.Done {
			t.Errorf("%+v", got)
		}
		n.isAsBefore(before, "")
	})
}

// TestSurvey: a survey changes nothing, and leaves nothing in the installer's folder. It says so if
// the node has it all.
func TestSurvey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		before := n.tree()
		o := n.order("v1", section)
		o.Action = record.Survey
		if got := n.do(o); got.Status != record.Done || got.Reason != "" || !strings.Contains(got.Text(), "can have version v1") {
			t.Errorf("%+v", got)
		}
		if steps := changedBy(n.steps); len(steps) > 0 || len(compare(before, n.tree())) > 0 || len(n.inFolder()) > 0 {
			t.Errorf("%v, %v", steps, n.inFolder())
		}
		n.problems = []string{"4GB: is 4Gi meant?"}
		if got := n.do(o); got.Status != record.Refused || got.Reason != record.Section || len(changedBy(n.steps)) > 0 {
			t.Errorf("%+v", got)
		}
		n.problems = nil
		n.mustApply("v1", section)
		n.steps = nil
		if got := n.do(o); got.Status != record.Done || got.Reason != record.Unchanged || len(n.steps) > 0 {
			t.Errorf("%+v, %v", got, n.steps)
		}
	})
}

// TestKilledAnywhere: the installer is killed before each step. When the time is over, after a
// reboot, or at the next call, the node is as before, or has it all.
func TestKilledAnywhere(t *testing.T) {
	was := section
	again := func(version, section string) func(*node) record.Order {
		return func(n *node) record.Order {
			n.mustApply("v1", was)
			return n.order(version, section)
		}
	}
	for name, test := range map[string]struct {
		prepare func(*node) record.Order
		ends    []string
	}{
		"first":   {func(n *node) record.Order { return n.order("v1", section) }, []string{"timer", "reboot", "call"}},
		"version": {again("v2", section), []string{"timer"}},
		"section": {again("v1", otherSection), []string{"reboot"}},
		"both":    {again("v2", otherSection), []string{"timer", "call"}},
		"first, with a section": {func(n *node) record.Order {
			n.write(kubeletconfig.OverridePath, section)
			return n.order("v1", section)
		}, []string{"reboot"}},
		"fails": {func(n *node) record.Order {
			n.notReady = "the kubelet is gone"
			return n.order("v1", section)
		}, []string{"timer", "call"}},
	} {
		for _, ends := range test.ends {
			t.Run(name+"/"+ends, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					kept, back := 0, 0
					for at := 1; ; at++ {
						n := newNode(t)
						o := test.prepare(n)
						before, active := n.tree(), maps.Clone(n.active)
						if !n.killedAt(at, func() { n.do(o) }) {
							break
						}
						id, last := n.call(), n.steps[len(n.steps)-1]
						n.ends(ends, before, last)
						state := n.state()
						switch {
						case state.Rollout != nil:
							t.Errorf("killed before %q: the roll is left: %+v", last, state.Rollout)
						case state.Kept != nil && state.Kept.By == id:
							kept++
							if n.read(kubeletconfig.OverridePath) != o.Section || n.read(monitorPath) != "monitor "+n.h.Version {
								t.Errorf("killed before %q: kept, and not in place", last)
							}
						default:
							back++
							after := n.tree()
							if ends == "reboot" {
								dropRuntime(before, after)
							} else if n.active["partition-monitor.service"] != active["partition-monitor.service"] {
								t.Errorf("killed before %q: the monitor runs: %t", last, n.active["partition-monitor.service"])
							}
							for _, d := range compare(before, after) {
								t.Errorf("killed before %q: %s", last, d)
							}
						}
						for _, name := range backPaths() {
							if n.exists(name) {
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

// ends has a node go back whose installer was killed before a step.
func (n *node) ends(how string, before map[string]string, last string) {
	n.t.Helper()
	switch how {
	case "call":
		if got := n.takeOffEarlier(); got.Status == record.Remains {
			n.t.Errorf("killed before %q: the next call: %+v", last, got)
		}
		return
	case "reboot":
		n.now.Since += trialTime
		n.reboot()
	default:
		n.now.Since += trialTime
		if n.active[backTimer] {
			n.mustBack()
		}
	}
	if n.state().Rollout != nil {
		// The rollback was not armed yet. Its own unit files are all that there is, and the next call
		// has the node go back.
		if name := unarmed(before, n.tree()); name != "" && n.now.Boot == "one" {
			n.t.Errorf("killed before %q: no way back, and %s", last, name)
		}
		n.mustBack()
	}
	if service := filepath.Join(unitFolder, backService); how == "reboot" && n.exists(service) {
		// It was killed before it could remove the last file, which nothing starts.
		if n.exists(bootLink.path) || !strings.HasSuffix(last, service) {
			n.t.Errorf("killed before %q: the way back was started, and is left", last)
		}
		n.mustBack()
	}
}

// takeOffEarlier makes a call that is refused after it has ended what an earlier one has left.
func (n *node) takeOffEarlier() record.Outcome {
	n.write("/proc/cmdline", "quiet node_partition=0")
	defer n.write("/proc/cmdline", "quiet")
	return n.do(n.order(n.h.Version, section))
}

// unarmed returns the first difference between trees that is not a file of the rollback.
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

// TestStageFails: whatever fails, the node is as before, and the outcome says so and why.
func TestStageFails(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(*node)
		status record.Status
		reason record.Reason
		says   string
	}{
		"install":   {func(n *node) { n.fails["systemctl try-restart"] = "Access denied" }, record.WentBack, record.Verify, "Access denied"},
		"the timer": {func(n *node) { n.fails["systemctl restart "+backTimer] = "bad unit" }, record.WentBack, record.Failed, "bad unit"},
		"try":       {func(n *node) { n.fails["partition-monitor try /"] = "pods would be evicted at once" }, record.WentBack, record.Section, "evicted at once"},
		"verify, the node": {
			func(n *node) { n.notReady = "KubeletNotReady: PLEG" }, record.WentBack, record.Verify, "PLEG",
		},
		"verify, the API server answers once": {
			func(n *node) { n.notReady, n.deaf = "KubeletNotReady: PLEG", true }, record.WentBack, record.Verify, "PLEG",
		},
		"verify, a member": {func(n *node) {
			n.onApplied(func() { n.pods[0].Ready = false })
		}, record.WentBack, record.Verify, "kube-system/dns was Ready"},
		"verify, a member that was evicted": {func(n *node) {
			n.onApplied(func() {
				n.pods = []podState{
					{Pod: podID{UID: "u1", Namespace: "kube-system", Name: "dns"}, Ended: true, Failed: true},
					{Pod: podID{UID: "u2", Namespace: "kube-system", Name: "dns-in-its-place"}},
				}
			})
		}, record.WentBack, record.Verify, "kube-system/dns was Ready before, and has failed"},
		"verify, check": {
			func(n *node) {
				n.onApplied(func() { n.findings = []state.Finding{{Check: "slice", Grade: state.Error, Found: "memory.max is max"}} })
			}, record.WentBack, record.Check, "memory.max is max",
		},
		"keep": {func(n *node) { n.fails["partition-monitor keep"] = "disk full" }, record.WentBack, record.Failed, "disk full"},
		"the monitor does not start": {
			func(n *node) {
				n.onApplied(func() { n.active["partition-monitor.service"] = false })
			}, record.WentBack, record.Verify, "the service is not ready: does not run; journalctl -u partition-monitor.service",
		},
		"a static pod stays": {
			func(n *node) { n.static, n.notReady = true, "gone" }, record.Remains, record.Verify, "kubepods-system.slice is active",
		},
		"try --end fails": {
			func(n *node) {
				n.notReady = "gone"
				n.fails["partition-monitor try --end"] = "the bus is gone"
			}, record.Remains, record.Verify, "the node is not as before",
		},
		"the end, after all is kept": {func(n *node) { n.fails["systemd-run"] = "systemd is busy" }, record.Done, "", "systemd is busy"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				before := n.tree()
				test.spoil(n)
				got := n.do(n.order("v1", section))
				if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Text(), test.says) {
					t.Errorf("%+v; want %d, %s, %q", got, test.status, test.reason, test.says)
				}
				differ := compare(before, n.tree())
				if test.status == record.WentBack && (len(differ) > 0 || len(n.inFolder()) > 0) {
					t.Errorf("says that the node is as before: %v, %v", differ, n.inFolder())
				}
				if test.status == record.Remains && strings.Contains(got.Text(), "is as before:") {
					t.Errorf("says that the node is as before: %s", got.Text())
				}
			})
		})
	}
}

// TestCallerGone: the pod, or the terminal, goes while the node is changed. The node goes back. It
// is kept if the section was permanent by then.
func TestCallerGone(t *testing.T) {
	gone := errors.New("the call was given up")
	for at, want := range map[string]record.Status{
		"systemctl daemon-reload": record.WentBack, "partition-monitor try /": record.WentBack, "partition-monitor status -o json": record.WentBack,
		"partition-monitor keep": record.WentBack,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			before := n.tree()
			ctx, cancel := context.WithCancelCause(t.Context())
			n.h.Programs = around{n, func(ctx context.Context, line string) *ran {
				if !strings.HasPrefix(line, at) || ctx.Done() == nil {
					return nil
				}
				cancel(gone)
				return &ran{err: context.Cause(ctx)}
			}}
			got := n.doWithin(ctx, n.order("v1", section))
			if got.Status != want || !strings.Contains(got.Text(), gone.Error()) {
				t.Errorf("%s: %+v", at, got)
			}
			n.isAsBefore(before, at)
		})
	}
}

// TestVerifyMembers: members that were deleted or have done their work since, and failed pods that
// were not Ready before, keep nothing from its end.
func TestVerifyMembers(t *testing.T) {
	for name, pods := range map[string][]podState{
		"deleted":        {{Pod: podID{UID: "u1", Namespace: "kube-system", Name: "dns"}, Ended: true}},
		"gone":           {},
		"failed before":  {{Pod: podID{UID: "u0", Namespace: "kube-system", Name: "old"}, Ended: true, Failed: true}},
		"not one of its": {{Pod: podID{UID: "u0", Namespace: "default", Name: "web"}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.onApplied(func() { n.pods = pods })
			if got := n.do(n.order("v1", section)); got.Status != record.Done {
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
	}{
		"asked":          {func(*node) {}, "the node and its members are Ready", "not known"},
		"no cluster":     {func(n *node) { n.alone = true }, "Ready was not checked", "members are Ready"},
		"joins":          {func(n *node) { n.alone = true; n.onApplied(func() { n.alone = false }) }, "is not known: the node had no credentials", "members are Ready"},
		"members hidden": {func(n *node) { n.hidden = errors.New("pods is forbidden") }, "is not known: pods is forbidden", "members are Ready"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			test.prepare(n)
			got := n.do(n.order("v1", section))
			if got.Status != record.Done || !strings.Contains(got.Text(), test.want) || strings.Contains(got.Text(), test.not) {
				t.Errorf("%s: %+v; want %q", name, got, test.want)
			}
			if said := strings.Join(n.said, "\n"); !strings.Contains(said, "installing version v1\ntrying section ") {
				t.Errorf("%s: the journal has\n%s", name, said)
			}
		})
	}
}

// TestUnwell: what partition-monitor status says of a node decides whether a change is kept.
func TestUnwell(t *testing.T) {
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	evicting := func(last string) string {
		return `"partitions":[{"name":"system","slice":"kubepods-system.slice","eviction":{"last":[` + last + `]}}]`
	}
	const active = `"partitions":[{"name":"system","slice":"kubepods-system.slice"}]`
	for name, test := range map[string]struct{ status, want string }{
		"well":                {`{` + active + `,"service":"ready","pods":[{"namespace":"a","name":"b","reason":"static"}]}`, ""},
		"no partition":        {`{"partitions":[],"problem":"no section","service":"ready"}`, "no partition is active: no section"},
		"the service":         {`{` + active + `,"service":"starts"}`, "the service is not ready: starts"},
		"a pod that waits":    {`{` + active + `,"service":"ready","pods":[{"namespace":"a","name":"b","reason":"pending"},{"reason":"static"},{"reason":"moving"}]}`, "pod a/b waits to be moved (pending), and 1 more"},
		"a pod that is moved": {`{` + active + `,"service":"ready","pods":[{"namespace":"a","name":"b","reason":"moving"}]}`, "pod a/b waits to be moved (moving)"},
		"an eviction":         {`{` + evicting(`{"uid":"u1","namespace":"a","name":"b","method":"evict","time":"2026-03-01T12:00:01Z"}`) + `,"service":"ready"}`, "pod a/b was Ready before, and partition system has evicted it"},
		"another's eviction":  {`{` + evicting(`{"uid":"u2","method":"evict","time":"2026-03-01T12:00:01Z"},{"uid":"u1","method":"evict","time":"2026-03-01T12:00:00Z"},{"uid":"u1","method":"evict","dryRun":true,"time":"2026-03-01T12:00:01Z"},{"uid":"u1","method":"restart","time":"2026-03-01T12:00:01Z"}`) + `,"service":"ready"}`, ""},
		"no answer":           {`partition-monitor: killed`, "partition-monitor status"},
	} {
		n := newNode(t)
		n.h.Programs = around{n, func(_ context.Context, line string) *ran {
			if line != "partition-monitor status -o json" {
				t.Errorf("%s: runs %q", name, line)
			}
			return &ran{text: test.status}
		}}
		err := n.h.unwell(t.Context(), nil, &plan{begun: begun, Rollout: record.Rollout{Ready: []string{"u1"}}}, record.Order{})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
	}
}

// TestBadOptions: options with which the monitor does not start leave nothing behind.
func TestBadOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, had := range []bool{false, true} {
			n := newNode(t)
			if had {
				n.mustApply("v1", section)
			}
			before := n.tree()
			o := n.order("v1", section)
			o.MonitorArgs = "--bogus"
			if got := n.do(o); got.Status != record.WentBack || got.Reason != record.Verify {
				t.Errorf("%+v", got)
			}
			n.isAsBefore(before, "")
		}
	})
}

// TestRefused: each reason for a refusal, before anything is written.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(*node)
		reason record.Reason
	}{
		"cgroup v1": {func(n *node) { n.remove("/sys/fs/cgroup/cgroup.controllers") }, record.CgroupV1},
		"cgroup v1, and check cannot run": {func(n *node) {
			n.remove("/sys/fs/cgroup/cgroup.controllers")
			n.fails["systemctl"] = "no"
			n.fails["partition-monitor"] = "no"
		}, record.CgroupV1},
		"a foreign file":     {func(n *node) { n.write(monitorPath, "mine") }, record.ForeignFile},
		"a package":          {func(n *node) { n.write(dpkgList, "/.") }, record.ForeignFile},
		"an extension":       {func(n *node) { n.write(extension, "ID=debian") }, record.ForeignFile},
		"another prefix":     {func(n *node) { n.write("/etc/systemd/system-generators/partition-generator", "x") }, record.ForeignFile},
		"another section":    {func(n *node) { n.write(kubeletconfig.OverridePath, otherSection) }, record.ForeignFile},
		"SELinux":            {func(n *node) { n.enforce("system_u:object_r:unlabeled_t:s0") }, record.SELinux},
		"SELinux, of a pod":  {func(n *node) { n.enforce("system_u:object_r:container_file_t:s0:c1,c2") }, record.SELinux},
		"the kubelet's gate": {func(n *node) { n.kubelet("featureGates: {NodeSystemPartition: true}") }, record.KubeletGate},
		"cgroupfs, by the pods": {func(n *node) {
			n.remove("/sys/fs/cgroup/kubepods.slice")
			n.write("/sys/fs/cgroup/kubepods/cgroup.procs", "")
		}, record.Cgroupfs},
		"cgroupfs, by check": {func(n *node) {
			n.findings = []state.Finding{{Check: "cgroup-driver", Grade: state.Error, Found: "the runtime uses cgroupfs"}}
		}, record.Cgroupfs},
		"check": {func(n *node) {
			n.findings = []state.Finding{{Check: "runtime", Grade: state.Error, Found: "does not answer"}}
		}, record.Check},
		"the section":         {func(n *node) { n.problems = []string{"not a quantity"} }, record.Section},
		"an option":           {func(n *node) { n.fails["partition-monitor run --help --listen=x"] = "unknown option" }, record.Section},
		"a trial":             {func(n *node) { n.write(kubeletconfig.TrialPath, section) }, record.Check},
		"the kernel's switch": {func(n *node) { n.write("/proc/cmdline", "quiet node_partition=0") }, record.Check},
		"no payload":          {func(n *node) { n.h.Payload = fstest.MapFS{} }, record.Failed},
		"no folder of units":  {func(n *node) { n.remove(filepath.Dir(servicePath)) }, record.ForeignFile},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			o := n.order("v1", section)
			o.MonitorArgs = "--listen=x"
			test.spoil(n)
			before := n.tree()
			if got := n.do(o); got.Status != record.Refused || got.Reason != test.reason {
				t.Errorf("%+v; want %s", got, test.reason)
			}
			if steps := changedBy(n.steps); len(steps) > 0 {
				t.Errorf("something was done: %v", steps)
			}
			if d := compare(before, n.tree()); len(d) > 0 || len(n.inFolder()) > 0 {
				t.Errorf("something was written: %v, %v", d, n.inFolder())
			}
		})
	}
}

// TestOptionsStartNothing: an option that would have the judged monitor run is refused.
func TestOptionsStartNothing(t *testing.T) {
	for _, option := range []string{"--help=false", "--h=false", "--help"} {
		n := newNode(t)
		o := n.order("v1", section)
		o.MonitorArgs = "--listen=x " + option
		if got := n.do(o); got.Status != record.Refused || got.Reason != record.Section || !strings.Contains(got.Text(), option) {
			t.Errorf("%s: %+v", option, got)
		}
	}
}

// TestEdited: a section and a file of ours that somebody has edited are not overwritten.
func TestEdited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.mustApply("v1", section)
		n.write(kubeletconfig.OverridePath, otherSection)
		if got := n.do(n.order("v1", section)); got.Status != record.Refused || !strings.Contains(got.Text(), kubeletconfig.OverridePath+": was changed") {
			t.Errorf("%+v", got)
		}
		n.write(kubeletconfig.OverridePath, section)
		version, err := n.h.version(n.h.has())
		if err != nil {
			t.Fatal(err)
		}
		n.write(filepath.Join("/usr/libexec/node-partition", version, serviceFile), "[Service] mine")
		if got := n.do(n.order("v1", section)); got.Status != record.Refused || got.Reason != record.ForeignFile || !strings.Contains(got.Text(), serviceFile+": was changed") {
			t.Errorf("%+v", got)
		}
		// Another version brings its own files.
		n.mustApply("v2", section)
		if n.read(monitorPath) != "monitor v2" || strings.Contains(n.read(servicePath), "mine") {
			t.Errorf("%v", n.tree())
		}
		// A link that is gone is made again.
		n.remove(monitorPath)
		if got := n.do(n.order("v2", section)); got.Status != record.Done || got.Reason == record.Unchanged || n.read(monitorPath) != "monitor v2" {
			t.Errorf("%+v", got)
		}
	})
}

// TestOneAtATime: a call waits while another one works on the node, and a survey of a node whose
// change was killed is refused.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		unlock, err := n.h.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, unlock)
		began := time.Now()
		if got := n.do(n.order("v1", section)); got.Status != record.Done || time.Since(began) < time.Minute {
			t.Errorf("after %s: %+v", time.Since(began), got)
		}
		n.killedAt(10, func() { n.do(n.order("v2", section)) })
		o := n.order("v2", section)
		o.Action = record.Survey
		if got := n.do(o); got.Status != record.Refused || !strings.Contains(got.Text(), "has not ended") {
			t.Errorf("%+v", got)
		}
	})
}

// around is a Runner that asks before each program, by its command line. With a result from before,
// the program does not run.
type around struct {
	Runner
	before func(ctx context.Context, line string) *ran
}

// ran is the result of a program.
type ran struct {
	text string
	err  error
}

// Run implements Runner.
func (a around) Run(ctx context.Context, name string, args ...string) (string, error) {
	if ran := a.before(ctx, filepath.Base(name)+" "+strings.Join(args, " ")); ran != nil {
		return ran.text, ran.err
	}
	return a.Runner.Run(ctx, name, args...)
}

// TestHangs: a program that never returns ends before the deadline: the rollback needs the lock.
// After the rename of the section all is kept all the same.
func TestHangs(t *testing.T) {
	for name, test := range map[string]struct {
		hangs  string // the beginning of a command line
		runs   bool   // the program has done its work when it hangs
		within time.Duration
		status record.Status
	}{
		"install":                {"systemctl daemon-reload", false, trialTime - margin, record.WentBack},
		"try":                    {"partition-monitor try /", false, trialTime - margin, record.WentBack},
		"try, after its start":   {"partition-monitor try /", true, trialTime - margin, record.WentBack},
		"the first look":         {"partition-monitor status", false, trialTime - margin, record.WentBack},
		"keep":                   {"partition-monitor keep", false, trialTime, record.WentBack},
		"keep, after the rename": {"partition-monitor keep", true, trialTime, record.Done},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				before := n.tree()
				hung := false
				n.h.Programs = around{n, func(ctx context.Context, line string) *ran {
					if !strings.HasPrefix(line, test.hangs) || hung {
						return nil
					}
					hung = true
					if test.runs {
						_, _ = n.monitor(line, strings.Fields(line)[1:])
					}
					select {
					case <-ctx.Done():
					case <-time.After(2 * trialTime):
					}
					return &ran{err: context.Cause(ctx)}
				}}
				began := time.Now()
				got := n.do(n.order("v1", section))
				// The rollback takes a few seconds more.
				if took := time.Since(began); !hung || took > test.within+15*time.Second {
					t.Errorf("hung: %t, for %s; want %s or less", hung, took, test.within)
				}
				if got.Status != test.status || !strings.Contains(got.Text(), errTime.Error()) || got.Status != record.Done && got.Reason != record.Timeout {
					t.Errorf("%+v; want %d, %q", got, test.status, errTime)
				}
				if test.status == record.Done {
					if kept := n.state().Kept; kept == nil || n.read(kubeletconfig.OverridePath) != section {
						t.Errorf("not kept: %+v", kept)
					}
					return
				}
				n.isAsBefore(before, "")
			})
		})
	}
}

// TestShortTrial: a section is not tried when the node goes back before its service can be ready.
func TestShortTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.h.Programs = around{n, func(_ context.Context, line string) *ran {
			if strings.HasPrefix(line, "systemctl try-restart") {
				n.now.Since += trialTime - shortest + 1
			}
			return nil
		}}
		got := n.do(n.order("v1", section))
		if got.Status != record.WentBack || got.Reason != record.Timeout || !strings.Contains(got.Text(), "use a longer --trial") {
			t.Errorf("%+v", got)
		}
		if done := strings.Join(n.steps, "\n"); strings.Contains(done, "partition-monitor try /") {
			t.Errorf("the section was tried: %s", done)
		}
	})
}
