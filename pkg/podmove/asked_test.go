package podmove

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"
	"testing"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"

	"k8s.io/apimachinery/pkg/types"
)

// advertised is asking, with the resource of the type on the Node.
func advertised(answer partition.Refusal) Policy {
	c := asking(answer)
	c.Workloads[0].Advertise, c.Workloads[0].CPUs = true, 256 // more than any of the pods requests
	return c
}

// annotatedWith makes a pod a converted one of which the kubelet reports nothing.
func annotatedWith(request, limit int64) func(*Pod) {
	return func(p *Pod) {
		requests(request, limit)(p)
		p.Kubelet, p.Annotated = nil, podCPU(request, 0)
	}
}

// podCPU returns what the kubelet reports of a pod of telemetry with one container, main.
func podCPU(request, limit int64) admission.PodCPU {
	all := admission.PodCPU{Type: "telemetry", CPU: admission.CPU{Request: request, Limit: limit}}
	if request > 0 {
		all.Containers = map[string]admission.CPU{"main": all.CPU}
	}
	return all
}

// unlimited are the limits of the kubelet's slice of a pod that requests memory alone.
var unlimited = cgroups.Limits{
	MemoryMax: 256 << 20, MemoryHigh: cgroups.Unlimited, CPUWeight: 1, CPUQuotaPerSec: cgroups.Unlimited, CPUQuotaPeriod: 100_000,
	TasksMax: 1000,
}

// requests makes a pod a converted one: it asks for telemetry and requests its resource.
func requests(request, limit int64) func(*Pod) {
	return func(p *Pod) {
		asks(p)
		p.MilliCPU, p.DefaultCgroup.Limits = 0, unlimited
		p.Kubelet.Requested = podCPU(request, limit)
		p.Containers[0].asked = p.Kubelet.Requested.Containers["main"]
		p.Containers[0].CPU = cgroups.CPU{Weight: 1, Quota: cgroups.Unlimited, Period: 100_000}
	}
}

// decided returns the decision about pods under a policy, with a record of earlier passes.
func decided(c Policy, record CPURecord, pods ...Pod) Decision {
	s := partitioned(func(s *Snapshot) {
		s.Config = c
		s.CPU, s.Runtime = record, admission.LinearWeight
		for slice := range s.Weights {
			s.Weights[slice] = 7777 // no partition has it
		}
	}, pods...)
	s.Rules = s.Config.Rules()
	return Decide(s)
}

// weightOfSlice returns the weight that a decision gives to a partition's slice.
func (d Decision) weightOfSlice(slice string) uint64 {
	i := slices.IndexFunc(d.Weights, func(w WeightSpec) bool { return w.Slice == slice })
	if i < 0 {
		return 0
	}
	return d.Weights[i].Weight
}

// TestDecideRequested: the slice of a pod that is a member by annotation has the weight and the
// quota of the resource of its type, as the kubelet would give it for a CPU request, and so has its
// partition. Any other pod has the values of the kubelet's slice.
func TestDecideRequested(t *testing.T) {
	t.Parallel()
	notAdvertised := asking("")
	another := requests(400, 0)
	for name, test := range map[string]struct {
		policy Policy
		change func(*Pod)
		// weight and quota of the slice of the pod, and weight of the partition.
		weight, quota, partition uint64
	}{
		"asks":                        {advertised(""), requests(400, 500), 16, 500_000, 16},
		"one CPU":                     {advertised(""), requests(1000, 0), 39, cgroups.Unlimited, 39},
		"a limit of no whole percent": {advertised(""), requests(400, 505), 16, 510_000, 16},
		"the smallest limit":          {advertised(""), requests(1, 1), 1, 10_000, 1},
		"nothing of the resource":     {advertised(""), requests(0, 0), 1, cgroups.Unlimited, 1},
		"the type has no resource":    {notAdvertised, requests(400, 500), 1, cgroups.Unlimited, 1},
		"any number":                  {advertised(""), requests(math.MaxInt64, 0), 10_000, cgroups.Unlimited, 10_000},
		"beside a request of CPU": {advertised(""), func(p *Pod) {
			requests(400, 700)(p)
			p.MilliCPU, p.DefaultCgroup.Limits = 600, limited // which has another quota
		}, 39, limited.CPUQuotaPerSec, 39},
		"another type by now": {advertised(""), func(p *Pod) {
			another(p)
			p.Kubelet.Requested.Type = "web"
		}, 1, cgroups.Unlimited, 1},
		"a member by its namespace": {advertised(""), func(p *Pod) {
			another(p)
			p.Ask.Type, p.Namespace = "", "monitoring"
		}, 1, cgroups.Unlimited, 1},
	} {
		pod := in("shop-2", telemetry, test.change)
		pod.Partitions[1].Limits.TasksMax = 1 // differs: the decision has the limits
		d := decided(test.policy, CPURecord{}, pod)
		want := pod.DefaultCgroup.Limits
		want.CPUWeight, want.CPUQuotaPerSec = test.weight, test.quota
		if len(d.Ensure) != 1 || d.Ensure[0].Limits != want {
			t.Errorf("%s: %+v; want %+v", name, d.Ensure, want)
		}
		for _, slice := range []string{"kubepods-telemetry.slice", "kubepods-telemetry-burstable.slice"} {
			if got := d.weightOfSlice(slice); got != test.partition {
				t.Errorf("%s: %s weighs %d; want %d", name, slice, got, test.partition)
			}
		}
		pod.Partitions[1].Limits = want
		if d := decided(test.policy, CPURecord{}, pod); len(d.Ensure) > 0 {
			t.Errorf("%s: %+v although the slice has its limits", name, d.Ensure)
		}
	}
}

// TestDecideRequestedElsewhere: a pod that runs in another partition than its own has the values of
// the kubelet's slice there, and so has that partition.
func TestDecideRequestedElsewhere(t *testing.T) {
	t.Parallel()
	pod := in("shop-2", partition.System, requests(400, 500))
	d := decided(advertised(""), CPURecord{}, pod)
	ours := unlimited
	ours.CPUWeight, ours.CPUQuotaPerSec = 16, 500_000
	want := map[string]cgroups.Limits{pod.Cgroup(partition.System).Slice: unlimited, pod.Cgroup(telemetry).Slice: ours}
	got := map[string]cgroups.Limits{}
	for _, slice := range d.Ensure {
		got[slice.Name] = slice.Limits
	}
	if !maps.Equal(got, want) {
		t.Errorf("makes %+v; want %+v", got, want)
	}
	if got := d.weightOfSlice("kubepods-system.slice"); got != 1 {
		t.Errorf("the partition that it runs in weighs %d; want 1", got)
	}
}

// TestDecideRequestedSums: the requests of many pods, of any size, do not overflow.
func TestDecideRequestedSums(t *testing.T) {
	t.Parallel()
	pods := make([]Pod, 4)
	for i := range pods {
		pods[i] = in("shop-2", telemetry, requests(math.MaxInt64, 0), func(p *Pod) { p.MilliCPU = math.MaxInt64 })
	}
	if got := decided(advertised(""), CPURecord{}, pods...).weightOfSlice("kubepods-telemetry.slice"); got != 10_000 {
		t.Errorf("the partition weighs %d; want the most", got)
	}
}

// TestDecideRequestedLast: while the kubelet does not report a pod, the figures count that were
// known last. A pod of which none are known has what the kubelet gave it.
func TestDecideRequestedLast(t *testing.T) {
	t.Parallel()
	last := CPURecord{Pods: map[string]PodTime{"a": {PodCPU: podCPU(400, 500)}}}
	besides := CPURecord{Pods: map[string]PodTime{"a": {podCPU(400, 500), 600}}}
	forgotten := func(p *Pod) { requests(0, 0)(p); p.Kubelet = nil }
	evicted := func(p *Pod) { forgotten(p); p.terminate() }
	known := func(p *Pod) { requests(1000, 0)(p) }
	for name, test := range map[string]struct {
		record         CPURecord
		change         func(*Pod)
		weight, remain int64
	}{
		"not reported":            {last, forgotten, 16, 400},
		"not reported, evicted":   {last, evicted, 16, 400},
		"beside a request of CPU": {besides, forgotten, 39, 400},
		"which is estimated":      {besides, func(p *Pod) { forgotten(p); p.MilliCPU = 100 }, 39, 400},
		"reported":                {last, known, 39, 1000},
		"reported with nothing":   {last, requests(0, 0), 1, 0},
		"never reported":          {CPURecord{}, forgotten, 1, 0},
		"of another type by then": {CPURecord{Pods: map[string]PodTime{"a": {PodCPU: admission.PodCPU{Type: "web", CPU: admission.CPU{Request: 400}}}}}, forgotten, 1, 0},
	} {
		pod := in("shop-2", telemetry, test.change)
		pod.Partitions[1].Limits.TasksMax = 1
		d := decided(advertised(""), test.record, pod)
		if len(d.Ensure) != 1 || d.Ensure[0].Limits.CPUWeight != uint64(test.weight) || d.weightOfSlice("kubepods-telemetry.slice") != uint64(test.weight) {
			t.Errorf("%s: %+v, %+v; want the weight %d", name, d.Ensure, d.Weights, test.weight)
		}
		if got := d.CPU.Pods["a"]; got.Request != test.remain || got.MilliCPU != test.record.Pods["a"].MilliCPU {
			t.Errorf("%s: keeps %+v; want %d", name, got, test.remain)
		}
	}
	pod := in("shop-2", telemetry, func(p *Pod) { known(p); p.MilliCPU = 600 })
	if got := decided(advertised(""), last, pod).CPU.Pods["a"]; got.MilliCPU != 600 || got.Request != 1000 || got.Containers != nil {
		t.Errorf("keeps %+v of what the kubelet reports", got)
	}
	if d := decided(advertised(""), last); len(d.CPU.Pods) > 0 {
		t.Errorf("of a pod that is gone: %+v", d.CPU.Pods)
	}
}

// TestDecideAnnotated: while no kubelet reports a converted pod, it has the CPU time of its
// annotations, and so have its containers and the partition. It has no more than the CPUs of the
// partition, whatever they say, and nothing without a right. What a kubelet has reported counts.
func TestDecideAnnotated(t *testing.T) {
	t.Parallel()
	two := advertised("")
	two.Workloads[0].CPUs = 2
	another := func(p *Pod) { annotatedWith(400, 0)(p); p.Annotated.Type = "web" }
	nothing := func(p *Pod) { annotatedWith(0, 0)(p); p.Annotated.Flaw = "is no number" }
	none := func(p *Pod) { annotatedWith(0, 0)(p) }
	for name, test := range map[string]struct {
		policy Policy
		last   PodTime
		change func(*Pod)
		// weight of the slice of the pod and of the partition, and of the container; 0 if it stays.
		weight, container uint64
		found             report.Workload
	}{
		"asks":                        {two, PodTime{}, annotatedWith(400, 500), 16, 16, report.Workload{MilliCPU: 400}},
		"evicted":                     {two, PodTime{}, func(p *Pod) { annotatedWith(400, 500)(p); p.terminate() }, 16, 16, report.Workload{MilliCPU: 400}},
		"more than its partition has": {two, PodTime{}, annotatedWith(4000, 0), 79, 157, report.Workload{MilliCPU: 2000}},
		"reported before":             {two, PodTime{PodCPU: podCPU(1000, 0)}, annotatedWith(400, 0), 39, 0, report.Workload{MilliCPU: 1000}},
		"nothing":                     {two, PodTime{}, none, 1, 0, report.Workload{}},
		"nothing that counts":         {two, PodTime{}, nothing, 1, 0, report.Workload{Flaw: "is no number"}},
		"of another type":             {two, PodTime{}, another, 1, 0, report.Workload{}},
		"without a right":             {advertised(partition.NotAllowed), PodTime{}, annotatedWith(400, 0), 1, 0, report.Workload{Refused: partition.NotAllowed}},
		"the type has no resource":    {asking(""), PodTime{}, annotatedWith(400, 0), 1, 0, report.Workload{}},
	} {
		pod := in("shop-2", telemetry, test.change)
		pod.Partitions[1].Limits.TasksMax = 1
		d := decided(test.policy, CPURecord{Pods: map[string]PodTime{"a": test.last}}, pod)
		if len(d.Ensure) != 1 || d.Ensure[0].Limits.CPUWeight != test.weight || d.Ensure[0].Limits.CPUQuotaPerSec != cgroups.Unlimited {
			t.Errorf("%s: %+v; want the weight %d", name, d.Ensure, test.weight)
		}
		if test.found.Refused == "" && d.weightOfSlice("kubepods-telemetry.slice") != test.weight {
			t.Errorf("%s: the partition: %+v; want the weight %d", name, d.Weights, test.weight)
		}
		container := uint64(0)
		if len(d.Scopes) > 0 {
			container = d.Scopes[0].CPU.Weight
		}
		if container != test.container {
			t.Errorf("%s: the container: %+v; want the weight %d", name, d.Scopes, test.container)
		}
		if got := d.CPU.Pods["a"]; got.Request != test.last.Request {
			t.Errorf("%s: records %+v of what no kubelet has said", name, got)
		}
		test.found.Type, test.found.By = "telemetry", d.Pods[0].Workload.By
		if *d.Pods[0].Workload != test.found {
			t.Errorf("%s: reports %+v; want %+v", name, *d.Pods[0].Workload, test.found)
		}
	}
}

// TestDecideAnnotatedEnds: a container gets the kubelet's weight back when its pod loses the right,
// also where the kubelet reports no requests.
func TestDecideAnnotatedEnds(t *testing.T) {
	t.Parallel()
	pod := in("shop-2", telemetry, annotatedWith(400, 0), func(p *Pod) { p.Containers[0].CPU.Weight = 16 })
	record := CPURecord{Scopes: map[string]CPUTime{scopeA: {Weight: 16}}}
	if d := decided(advertised(""), record, pod); len(d.Scopes) > 0 {
		t.Errorf("with the right: %+v", d.Scopes)
	}
	want := []ScopeSpec{{scopeA, CPUTime{Weight: 1}}}
	if d := decided(advertised(partition.NotAllowed), record, pod); !slices.Equal(d.Scopes, want) {
		t.Errorf("without it: %+v; want %+v", d.Scopes, want)
	}
}

// TestDecideOwnCPUs: the resource adds to the weight of a partition as much as its CPUs have. What
// its pods request of CPU the node has promised, and counts besides.
func TestDecideOwnCPUs(t *testing.T) {
	t.Parallel()
	of := func(cpus int) Policy {
		c := advertised("")
		c.Workloads[0].CPUs = cpus
		return c
	}
	ask := requests(1000, 0)
	also := func(p *Pod) { ask(p); p.MilliCPU = 500 }
	for _, test := range []struct {
		policy Policy
		change func(*Pod)
		want   uint64
	}{
		{of(4), ask, 157}, {of(2), ask, 79}, {of(1), ask, 39},
		{of(1), also, 118}, // 1000 and four times 500
		{asking(""), ask, 1},
	} {
		pods := make([]Pod, 0, 4)
		for i := range 4 {
			pods = append(pods, in("shop-2", telemetry, test.change, func(p *Pod) { p.UID = string(rune('a' + i)) }))
		}
		d := decided(test.policy, CPURecord{}, pods...)
		for _, slice := range []string{"kubepods-telemetry.slice", "kubepods-telemetry-burstable.slice"} {
			if got := d.weightOfSlice(slice); got != test.want {
				t.Errorf("%d CPUs: %s weighs %d; want %d", test.policy.Workloads[0].CPUs, slice, got, test.want)
			}
		}
	}
}

// TestQuotaPerSec: a limit is rounded up to what systemd keeps over a reload, and is not so small
// that systemd would make the period longer.
func TestQuotaPerSec(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		milli        int64
		period, want uint64
	}{
		{1, 100_000, 10_000}, {10, 100_000, 10_000}, {11, 100_000, 20_000}, {500, 100_000, 500_000}, {256_000, 100_000, 256_000_000},
		{50, 10_000, 100_000}, {1, 1_000_000, 10_000}, {500, 0, 1_000_000_000},
	} {
		if got := quotaPerSec(test.milli, test.period); got != test.want {
			t.Errorf("%dm in a period of %d µs: %d µs per second; want %d", test.milli, test.period, got, test.want)
		}
	}
}

// TestPrepareSwitchedOff: a partition that is switched off between the announcement of a sandbox
// and the work for it gets no slice.
func TestPrepareSwitchedOff(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	off := asking("")
	off.Partitions = slices.Clone(off.Partitions)
	for i := range off.Partitions {
		off.Partitions[i].Off = true
	}
	r, _ := h.reconciler(Working, off)
	pod := cri.Sandbox{UID: uidA, Namespace: "shop-2", Name: "a"}
	pod.Ask.Type = "telemetry"
	r.prepare(t.Context(), announced(asking(""), pod))
	slice := partition.CgroupPath(partition.PodSlice(telemetry, "Burstable", uidA))
	if _, err := cgroups.FS(h.root).Limits(slice); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was made: %v", slice, err)
	}
}

// TestPrepareRequestedCPU: the slice of a converted pod has its weight before the first container,
// by what the kubelet reports, or by what was known last.
func TestPrepareRequestedCPU(t *testing.T) {
	t.Parallel()
	plain := cri.Sandbox{UID: uidA, Namespace: "shop-2", Name: "a"}
	plain.Ask.Type = "telemetry"
	converted := plain
	converted.Requested = podCPU(200, 0)
	for name, test := range map[string]struct {
		policy   Policy
		reported *kubelet.Pod
		last     PodTime
		want     uint64
		sandbox  cri.Sandbox
	}{
		"reported":                {advertised(""), &kubelet.Pod{Requested: podCPU(1000, 0)}, PodTime{PodCPU: podCPU(400, 0)}, 39, plain},
		"reported, for nothing":   {advertised(""), &kubelet.Pod{Requested: podCPU(0, 0)}, PodTime{PodCPU: podCPU(400, 0)}, 4, plain},
		"reported, for CPU alone": {advertised(""), &kubelet.Pod{Requested: podCPU(0, 0), MilliCPU: 1000}, PodTime{PodCPU: podCPU(400, 0)}, 4, plain},
		"reported, another type": {
			advertised(""), &kubelet.Pod{Requested: admission.PodCPU{Type: "web", CPU: admission.CPU{Request: 1000}}}, PodTime{PodCPU: podCPU(400, 0)}, 16, plain,
		},
		"not reported":            {advertised(""), nil, PodTime{PodCPU: podCPU(400, 0)}, 16, plain},
		"beside a request of CPU": {advertised(""), nil, PodTime{podCPU(400, 0), 600}, 39, plain},
		"not known":               {advertised(""), nil, PodTime{}, 4, plain},
		"not advertised":          {asking(""), &kubelet.Pod{Requested: podCPU(1000, 0)}, PodTime{}, 4, plain},
		"annotated":               {advertised(""), nil, PodTime{}, 8, converted},
		"annotated, and known":    {advertised(""), nil, PodTime{PodCPU: podCPU(1000, 0)}, 39, converted},
		"annotated, and reported": {advertised(""), &kubelet.Pod{Requested: podCPU(0, 0)}, PodTime{}, 4, converted},
	} {
		h := newHost(t)
		h.pods = map[types.UID]*kubelet.Pod{}
		if test.reported != nil {
			h.pods[uidA] = test.reported
		}
		r, _ := h.reconciler(Working, test.policy)
		r.recorded.CPURecord = CPURecord{Pods: map[string]PodTime{uidA: test.last}}
		r.prepare(t.Context(), announced(test.policy, test.sandbox))
		limits, err := cgroups.FS(h.root).Limits(partition.CgroupPath(partition.PodSlice(telemetry, "Burstable", uidA)))
		if err != nil || limits.CPUWeight != test.want {
			t.Errorf("%s: weight %d, %v; want %d", name, limits.CPUWeight, err, test.want)
		}
	}
}
