package podmove

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
)

const scopeA = "cri-containerd-ca.scope"

// TestDecideContainerCPU: the scope of a container that requests the resource gets the weight and
// the quota of that once, and again if the runtime has written the kubelet's. It gets the kubelet's
// back when it has no right any more. Whatever another program has set stays.
func TestDecideContainerCPU(t *testing.T) {
	t.Parallel()
	const none = cgroups.Unlimited
	has := func(weight, quota uint64) func(*Pod) {
		return func(p *Pod) { p.Containers[0].CPU = cgroups.CPU{Weight: weight, Quota: quota, Period: 100_000} }
	}
	with := func(changes ...func(*Pod)) func(*Pod) {
		return func(p *Pod) {
			for _, change := range changes {
				change(p)
			}
		}
	}
	container := func(change func(*Container)) func(*Pod) { return func(p *Pod) { change(&p.Containers[0]) } }
	ours, limitedOurs := CPUTime{Weight: 16}, CPUTime{Weight: 16, QuotaPerSec: 500_000}
	lifted := CPUTime{Weight: 1, QuotaPerSec: none}
	yes, no := advertised(""), advertised(partition.NotAllowed)
	for name, test := range map[string]struct {
		policy Policy
		had    *CPUTime
		change func(*Pod)
		// set is nil if nothing is written.
		set *CPUTime
		// then holds the record after it, nil for nothing.
		then *CPUTime
	}{
		"as the runtime made it":           {yes, nil, requests(400, 500), &limitedOurs, &limitedOurs},
		"without a limit":                  {yes, nil, requests(400, 0), &ours, &ours},
		"as it is":                         {yes, &ours, with(requests(400, 0), has(16, none)), nil, &ours},
		"as it is, with a limit":           {yes, &limitedOurs, with(requests(400, 500), has(16, 50_000)), nil, &limitedOurs},
		"as it is, and not recorded":       {yes, nil, with(requests(400, 500), has(16, 50_000)), nil, &limitedOurs},
		"after a resize":                   {yes, &limitedOurs, with(requests(400, 500), has(1, none)), &limitedOurs, &limitedOurs},
		"after a resize of the limit":      {yes, &limitedOurs, with(requests(400, 500), has(16, none)), &limitedOurs, &limitedOurs},
		"the limit is gone":                {yes, &limitedOurs, with(requests(400, 0), has(16, 50_000)), &CPUTime{16, none}, &ours},
		"the limit is gone, another's":     {yes, &limitedOurs, with(requests(400, 0), has(16, 30_000)), nil, &ours},
		"the limit was gone, another's":    {yes, &ours, with(requests(400, 0), has(16, 30_000)), nil, &ours},
		"a limit, and another's before":    {yes, nil, with(requests(400, 500), has(1, 30_000)), &ours, &ours},
		"a limit, and another's later":     {yes, &limitedOurs, with(requests(400, 500), has(16, 30_000)), nil, &ours},
		"a limit, and ten times as much":   {yes, &ours, with(requests(400, 100), has(16, 100_000)), nil, &ours},
		"another limit":                    {yes, &limitedOurs, with(requests(400, 600), has(16, 50_000)), &CPUTime{16, 600_000}, &CPUTime{16, 600_000}},
		"set by another program":           {yes, nil, with(requests(400, 0), has(79, none)), nil, nil},
		"set by another program later":     {yes, &ours, with(requests(400, 0), has(79, none)), nil, &ours},
		"another request":                  {yes, &ours, with(requests(1000, 0), has(16, none)), &CPUTime{Weight: 39}, &CPUTime{Weight: 39}},
		"any number":                       {yes, nil, requests(1<<62, 0), &CPUTime{Weight: 10_000}, &CPUTime{Weight: 10_000}},
		"beside a request of CPU":          {yes, nil, with(requests(400, 500), container(func(c *Container) { c.MilliCPU, c.MilliLimit = 600, 700 }), has(24, 70_000)), &CPUTime{Weight: 39}, &CPUTime{Weight: 39}},
		"nothing of the resource":          {yes, nil, requests(0, 0), nil, nil},
		"not started":                      {yes, nil, with(requests(400, 0), container(func(c *Container) { c.Running, c.Creating = false, true })), nil, nil},
		"not read":                         {yes, &ours, with(requests(400, 0), has(0, 0)), nil, &ours},
		"half moved":                       {yes, nil, with(requests(400, 0), container(func(c *Container) { c.AlsoUnit = "partition-" + scopeA })), nil, nil},
		"still in the kubelet's slice":     {yes, nil, with(requests(400, 0), container(func(c *Container) { c.Slice = "kubepods-burstable-poda.slice" })), nil, nil},
		"the kubelet does not report it":   {yes, &ours, with(requests(400, 0), has(1, none), func(p *Pod) { p.Kubelet = nil }), nil, &ours},
		"the pod ends":                     {yes, &ours, with(requests(400, 0), has(1, none), func(p *Pod) { p.Kubelet.Terminating = true }), nil, &ours},
		"the type has no resource":         {asking(""), nil, requests(400, 0), nil, nil},
		"the type lost its resource":       {asking(""), &limitedOurs, with(requests(400, 500), has(16, 50_000)), &lifted, &CPUTime{}},
		"the right is gone":                {no, &ours, with(requests(400, 0), has(16, none)), &CPUTime{Weight: 1}, &CPUTime{}},
		"the right is gone, unknown":       {no, &ours, with(requests(400, 0), has(16, none), func(p *Pod) { p.Kubelet = nil }), nil, &ours},
		"the right is gone, and a resize":  {no, &ours, with(requests(400, 0), has(1, none)), nil, &CPUTime{}},
		"the right is gone, another's":     {no, &ours, with(requests(400, 0), has(79, none)), nil, &CPUTime{}},
		"the right is gone, another quota": {no, &limitedOurs, with(requests(400, 500), has(16, 30_000)), &CPUTime{Weight: 1}, &CPUTime{}},
		"the right is gone, other weight":  {no, &limitedOurs, with(requests(400, 500), has(79, 50_000)), &CPUTime{79, none}, &CPUTime{}},
		"the right is gone, a CPU limit":   {no, &limitedOurs, with(requests(400, 500), container(func(c *Container) { c.MilliLimit = 500 }), has(16, 50_000)), &CPUTime{Weight: 1}, &CPUTime{}},
		"the limit is gone, a CPU limit":   {yes, &limitedOurs, with(requests(400, 0), container(func(c *Container) { c.MilliLimit = 500 }), has(16, 50_000)), nil, &ours},
		"the right was gone":               {no, &CPUTime{}, with(requests(400, 0), has(16, none)), nil, &CPUTime{}},
		"the right came back":              {yes, &CPUTime{}, requests(400, 0), &ours, &ours},
		"a request of CPU is what is left": {no, &ours, with(requests(400, 0), has(16, none), container(func(c *Container) { c.MilliCPU = 100 })), &CPUTime{Weight: 4}, &CPUTime{}},
		"it has ended":                     {yes, &ours, with(requests(400, 0), container(func(c *Container) { c.Running, c.Unit = false, "" })), nil, nil},
		"its scope was not found":          {yes, &ours, with(requests(400, 0), container(func(c *Container) { c.Unit = "" }), has(0, 0)), nil, &ours},
	} {
		record := newCPURecord()
		if test.had != nil {
			record.Scopes[scopeA] = *test.had
		}
		d := decided(test.policy, record, in("shop-2", telemetry, test.change))
		var want []ScopeSpec
		if test.set != nil {
			want = []ScopeSpec{{scopeA, *test.set}}
		}
		if !slices.Equal(d.Scopes, want) {
			t.Errorf("%s: sets %+v; want %+v", name, d.Scopes, want)
		}
		then := map[string]CPUTime{}
		if test.then != nil {
			then[scopeA] = *test.then
		}
		if !maps.Equal(d.CPU.Scopes, then) {
			t.Errorf("%s: keeps %+v; want %+v", name, d.CPU.Scopes, then)
		}
	}
}

// TestDecideContainerCPUMoving: a pod that is being moved is left alone.
func TestDecideContainerCPUMoving(t *testing.T) {
	t.Parallel()
	s := partitioned(func(s *Snapshot) {
		s.Config, s.Moving = advertised(""), "a"
		s.Runtime = admission.LinearWeight
	}, in("shop-2", telemetry, requests(400, 0)))
	s.Rules = s.Config.Rules()
	if d := Decide(s); len(d.Scopes) > 0 {
		t.Errorf("sets %+v", d.Scopes)
	}
}

// TestDecideContainerCPUMoved: a live move copies the CPU time into another scope, which has to get
// the kubelet's outside. What is kept for the old scope goes.
func TestDecideContainerCPUMoved(t *testing.T) {
	t.Parallel()
	moved := in("shop-2", partition.Default, requests(400, 0), func(p *Pod) {
		p.Containers[0].CPU.Weight = 16
	})
	record := newCPURecord()
	record.Scopes["partition-"+scopeA] = CPUTime{Weight: 16}
	d := decided(advertised(partition.NotAllowed), record, moved)
	if !slices.Equal(d.Scopes, []ScopeSpec{{scopeA, CPUTime{Weight: 1}}}) ||
		!maps.Equal(d.CPU.Scopes, map[string]CPUTime{scopeA: {}}) {
		t.Errorf("sets %+v, keeps %+v", d.Scopes, d.CPU.Scopes)
	}
}

// TestDecideContainerCPUHalfMoved: a container in two scopes is left alone, and its record kept for
// one of them.
func TestDecideContainerCPUHalfMoved(t *testing.T) {
	t.Parallel()
	record, halfMoved := newCPURecord(), in("shop-2", telemetry, requests(400, 0), func(p *Pod) {
		p.Containers[0].AlsoUnit = "partition-" + scopeA
	})
	record.Scopes["partition-"+scopeA] = CPUTime{Weight: 16}
	d := decided(advertised(partition.NotAllowed), record, halfMoved)
	if len(d.Scopes) > 0 || !maps.Equal(d.CPU.Scopes, map[string]CPUTime{scopeA: {Weight: 16}}) {
		t.Errorf("sets %+v, keeps %+v", d.Scopes, d.CPU.Scopes)
	}
}

// TestRuntimeFormula: the containers of pods that request CPU show the runtime's formula. One that
// has ours shows nothing.
func TestRuntimeFormula(t *testing.T) {
	t.Parallel()
	runs := func(milli int64, weight uint64, change ...func(*Pod)) Pod {
		return in("default", partition.Default, append([]func(*Pod){func(p *Pod) {
			p.Containers[0].MilliCPU, p.Containers[0].CPU.Weight = milli, weight
		}}, change...)...)
	}
	for name, test := range map[string]struct {
		pods          []Pod
		present, want admission.WeightFormula
	}{
		"nothing":         {nil, admission.QuadraticWeight, admission.QuadraticWeight},
		"the other":       {[]Pod{runs(1000, 100)}, admission.LinearWeight, admission.QuadraticWeight},
		"both":            {[]Pod{runs(1000, 100), runs(1000, 39)}, admission.LinearWeight, admission.LinearWeight},
		"neither":         {[]Pod{runs(1000, 77)}, admission.LinearWeight, admission.LinearWeight},
		"no request":      {[]Pod{runs(0, 1)}, admission.QuadraticWeight, admission.QuadraticWeight},
		"a request of it": {[]Pod{runs(1000, 100, func(p *Pod) { p.Containers[0].asked.Request = 1 })}, admission.LinearWeight, admission.LinearWeight},
		"not reported":    {[]Pod{runs(0, 100, func(p *Pod) { p.Kubelet = nil })}, admission.LinearWeight, admission.LinearWeight},
		"being deleted":   {[]Pod{runs(1000, 100, (*Pod).terminate)}, admission.LinearWeight, admission.QuadraticWeight},
		"not running":     {[]Pod{runs(1000, 0, func(p *Pod) { p.Containers[0].Running = false })}, admission.LinearWeight, admission.LinearWeight},
	} {
		if got := runtimeFormula(test.pods, test.present); got.Name != test.want.Name {
			t.Errorf("%s: %s; want %s", name, got.Name, test.want.Name)
		}
	}
}

// converted makes the pod of a host one that admission has converted, in its partition.
func (h *fakeHost) converted() {
	h.sandboxes[0].Namespace = "shop-2"
	h.sandboxes[0].Ask.Type = "telemetry"
	slice := partition.CgroupPath(partition.PodSlice(telemetry, "Burstable", uidA))
	h.cgroup(defaultA, map[string]string{"cpu.weight": "1", "cpu.max": "max 100000"})
	if err := os.RemoveAll(filepath.Join(h.root, defaultA, "cri-containerd-one.scope")); err != nil {
		h.t.Fatal(err)
	}
	h.cgroup(slice, map[string]string{"memory.max": "268435456", "cpu.weight": "1", "cpu.max": "max 100000", "pids.max": "max"})
	h.resets()
	for _, slice := range []string{
		"kubepods-telemetry.slice", "kubepods-telemetry-burstable.slice", "kubepods-system.slice", "kubepods-system-burstable.slice",
	} {
		h.cgroup(partition.CgroupPath(slice), map[string]string{"cpu.weight": "1"})
	}
	h.reports(podCPU(400, 500))
}

const convertedScope = "/cri-containerd-one.scope"

// resets gives the container the kubelet's values, as the runtime does at a resize.
func (h *fakeHost) resets() {
	slice := partition.CgroupPath(partition.PodSlice(telemetry, "Burstable", uidA))
	h.cgroup(slice+convertedScope, map[string]string{"cpu.weight": "1", "cpu.max": "max 100000"})
}

func (h *fakeHost) reports(asked admission.PodCPU) {
	h.pods = map[types.UID]*kubelet.Pod{uidA: {UID: uidA, Requested: asked, Containers: map[string]kubelet.Container{"main": {}}}}
}

// changed returns what was done since the last call about weights and limits.
func (h *fakeHost) changed() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	did := h.did
	h.did = nil
	return did
}

// TestReconcilerCPUTime: a converted pod has its CPU time after one reconcile, and a reconcile that
// finds it does nothing. A resize is followed by the next one. A monitor that starts again while
// the kubelet is away changes nothing, gives the kubelet's values back when the resource goes, and
// forgets what systemd keeps of a container that has ended.
func TestReconcilerCPUTime(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.converted()
	file := filepath.Join(t.TempDir(), "placement.json")
	begin := func(c Policy) *Reconciler {
		r, _ := h.reconciler(Working, c)
		r.options.RecordFile = file
		r.recall()
		return r
	}
	pass := func(r *Reconciler, want ...string) {
		t.Helper()
		if _, err := r.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := h.changed(); !slices.Equal(got, want) {
			t.Errorf("did %q; want %q", got, want)
		}
	}
	r := begin(advertised(""))
	known := h.pods
	h.pods = nil
	pass(r) // nothing is known yet, and nothing invented
	h.pods = known
	given := "cpu cri-containerd-one.scope 16 500000"
	pass(r, "ensure Pod shop-2/a", "weight kubepods-telemetry-burstable.slice 16", "weight kubepods-telemetry.slice 16", given)
	pass(r)
	h.resets()
	pass(r, given)
	pass(r)

	h.pods = nil
	r = begin(advertised(""))
	pass(r)
	h.pods = known
	pass(r)

	r = begin(asking(""))
	pass(r, "ensure Pod shop-2/a", "weight kubepods-telemetry-burstable.slice 1", "weight kubepods-telemetry.slice 1",
		"cpu cri-containerd-one.scope 1 18446744073709551615")
	pass(r)

	r = begin(asking(""))
	h.containers[0].State = cri.Exited
	removeAll(t, filepath.Join(h.root, partition.CgroupPath(partition.PodSlice(telemetry, "Burstable", uidA))+convertedScope))
	pass(r)
}

// TestReconcilerCPUTimeRefused: systemd that does not answer is an error of the reconcile, and the
// next pass tries again. The file has what may have been done.
func TestReconcilerCPUTimeRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.converted()
	r, _ := h.reconciler(Working, advertised(""))
	r.options.RecordFile = filepath.Join(t.TempDir(), "placement.json")
	h.broken = errors.New("systemd does not answer")
	if _, err := r.pass(t.Context()); !errors.Is(err, h.broken) {
		t.Errorf("a pass that could not do it: %v", err)
	}
	again := readRecord(r.options.RecordFile)
	if got := again.Scopes["cri-containerd-one.scope"]; got != (CPUTime{16, 500_000}) {
		t.Errorf("the file has %+v", again)
	}
	h.broken = nil
	h.changed()
	const given = "cpu cri-containerd-one.scope 16 500000"
	if _, err := r.pass(t.Context()); err != nil || !slices.Contains(h.changed(), given) {
		t.Errorf("the next pass: %v", err)
	}
	// The value that is there is ours, also if another one could not be set.
	h.reports(podCPU(1000, 0))
	h.broken = errors.New("systemd does not answer")
	if _, err := r.pass(t.Context()); !errors.Is(err, h.broken) {
		t.Errorf("a pass that could not change it: %v", err)
	}
	h.broken = nil
	h.changed()
	if _, err := r.pass(t.Context()); err != nil || !slices.Contains(h.changed(), "cpu cri-containerd-one.scope 39 18446744073709551615") {
		t.Errorf("the pass after that: %v", err)
	}
}

// TestRecord: what was set survives, and a file of another form counts as none.
func TestRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "placement.json")
	want := record{cgroups.Protection{Min: 3 << 20, Low: 5}, newCPURecord()}
	want.Pods[uidA], want.Scopes[scopeA] = PodTime{admission.PodCPU{Type: "telemetry", CPU: admission.CPU{Request: 400}}, 600}, CPUTime{16, 500_000}
	r := Reconciler{options: Options{RecordFile: path}}
	if err := r.record(want); err != nil {
		t.Fatal(err)
	}
	if again := readRecord(path); !reflect.DeepEqual(again, want) {
		t.Errorf("read %+v; want %+v", again, want)
	}
	const written = `{"version":1,"raised":{"min":3145728,"low":5},"pods":{"` + uidA + `":{"type":"telemetry","request":400,"milliCPU":600}},"scopes":{"` + scopeA + `":{"weight":16,"quotaPerSec":500000}}}` + "\n"
	if text, err := os.ReadFile(path); err != nil || string(text) != written {
		t.Errorf("wrote %q, %v; want %q", text, err, written)
	}
	for _, text := range []string{"", "{", `{"version":2,"scopes":{"a.scope":{"weight":1}}}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if again := readRecord(path); !reflect.DeepEqual(again, record{}) {
			t.Errorf("%q: %+v", text, again)
		}
	}
	r.options.RecordFile = filepath.Join(path, "none")
	if err := r.record(record{}); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}

// TestReconcilerFlaw: an annotation that is not followed is reported once, and again when its text
// changes, or when it was followed in between.
func TestReconcilerFlaw(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.converted()
		asked := podCPU(400, 0)
		asked.Flaw = "container main: wrong"
		h.reports(asked)
		r, e := h.reconciler(Working, advertised(""))
		for range 3 {
			if _, err := r.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		if len(e.failed) != 1 || !strings.Contains(e.failed[0].Error(), "container main: wrong") {
			t.Errorf("reported %q; want it once", e.failed)
		}
		if w := r.Report().Pods[0].Workload; w == nil || w.MilliCPU != 400 || w.Flaw != "container main: wrong" {
			t.Errorf("reports %+v", w)
		}
		step := func(what string, reported int) {
			t.Helper()
			if _, err := r.pass(t.Context()); err != nil || len(e.failed) != reported {
				t.Errorf("%s: %v, reported %q; want it %d times", what, err, e.failed, reported)
			}
		}
		asked.Flaw = "container main: wrong again"
		h.reports(asked)
		step("another flaw", 2)
		h.reports(podCPU(400, 0))
		step("none", 2)
		h.reports(asked)
		step("the last one again", 3)
	})
}
