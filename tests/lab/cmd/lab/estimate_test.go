package main

import (
	"maps"
	"slices"
	"testing"
	"time"

	"node-partition.io/node-partition/tests/lab"
)

func TestRemaining(t *testing.T) {
	// The kubelet is built beside Debian's installation; the disk needs both.
	plan := []planned{
		{name: "debian", reference: 60 * time.Second},
		{name: "kubelet", reference: 180 * time.Second},
		{name: "disk", reference: 20 * time.Second, after: []string{"debian", "kubelet"}},
		{name: "boot", reference: 40 * time.Second, after: []string{"disk"}},
	}
	seconds := func(s int) time.Duration { return time.Duration(s) * time.Second }
	for name, tc := range map[string]struct {
		plan  []planned
		begun map[string]observed
		want  time.Duration
		none  bool
	}{
		"before the first step": {plan: plan, want: seconds(240)},
		"two steps run": {plan: plan, begun: map[string]observed{
			"debian": {took: seconds(30)}, "kubelet": {took: seconds(30)},
		}, want: seconds(210)},
		"a machine as quick as the reference": {plan: plan, begun: map[string]observed{
			"debian": {took: seconds(60), over: true}, "kubelet": {took: seconds(60)},
		}, want: seconds(180)},
		// (100 + 20) / (60 + 20)
		"a slower machine": {plan: plan, begun: map[string]observed{
			"debian": {took: seconds(100), over: true}, "kubelet": {took: seconds(100)},
		}, want: seconds(270 - 100 + 30 + 60)},
		// (40 + 20) / (60 + 20)
		"a quicker machine": {plan: plan, begun: map[string]observed{
			"debian": {took: seconds(40), over: true}, "kubelet": {took: seconds(40)},
		}, want: seconds(135 - 40 + 15 + 30)},
		"a step whose work was in a cache": {plan: plan, begun: map[string]observed{
			"debian": {took: seconds(60), over: true}, "kubelet": {took: seconds(10), over: true},
		}, want: seconds(60)},
		"a step that takes longer than it should": {plan: plan, begun: map[string]observed{
			"debian": {took: seconds(60), over: true}, "kubelet": {took: seconds(270)},
		}, want: seconds(30 + 60)},
		"a step that takes much longer than it should": {plan: plan, begun: map[string]observed{
			"debian": {took: seconds(60), over: true}, "kubelet": {took: seconds(541)},
		}, none: true},
		"all is over": {plan: plan, begun: map[string]observed{
			"debian":  {took: seconds(60), over: true},
			"kubelet": {took: seconds(180), over: true},
			"disk":    {took: seconds(20), over: true},
			"boot":    {took: seconds(40), over: true},
		}, want: 0},
		"a step that is not in the plan": {plan: plan, begun: map[string]observed{
			"qemu": {took: seconds(1000)},
		}, want: seconds(240)},
		"a step waits for one that was over before": {plan: plan[3:], want: seconds(40)},
		"a step without a reference": {plan: []planned{
			{name: "debian", reference: time.Minute}, {name: "containerd"},
		}, none: true},
		"no plan": {none: true},
	} {
		got, ok := remaining(tc.plan, tc.begun)
		if ok == tc.none || got != tc.want {
			t.Errorf("%s: %s, %v; want %s, %v", name, got, ok, tc.want, !tc.none)
		}
	}
}

// TestReferences: each step of a first demo has a reference, and each reference is such a step's.
func TestReferences(t *testing.T) {
	t.Setenv("NODE_PARTITION_CACHE", t.TempDir())
	missing, err := lab.Missing(demoFlavour)
	if err != nil {
		t.Fatal(err)
	}
	left := references()
	for _, p := range demoPlan(missing) {
		if _, ok := left[p.name]; !ok {
			t.Errorf("no reference for %q: measure it, or name it as it is named in references", p.name)
		}
		delete(left, p.name)
	}
	for name := range left {
		t.Errorf("a first demo has no step %q", name)
	}
}

// TestDemoPlan: a first demo boots its node when that is made, and waits for the programs only when
// the pods run.
func TestDemoPlan(t *testing.T) {
	after := map[string][]string{}
	for _, p := range demoPlan([]lab.Step{{Name: "kubelet"}, {Name: "disk", After: []string{"kubelet"}}}) {
		after[p.name] = p.after
	}
	want := map[string][]string{
		buildingPrograms: nil,
		"kubelet":        nil,
		"disk":           {"kubelet"},
		booting:          {"kubelet", "disk"},
		startingPods:     {booting},
		switchingOn:      {startingPods, buildingPrograms},
		showing:          {switchingOn},
	}
	if !maps.EqualFunc(after, want, slices.Equal[[]string]) {
		t.Errorf("%q, want %q", after, want)
	}
}

func TestAbout(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                 "less than a minute",
		44 * time.Second:  "less than a minute",
		45 * time.Second:  "about a minute",
		60 * time.Second:  "about a minute",
		61 * time.Second:  "about 2 minutes",
		439 * time.Second: "about 8 minutes",
	} {
		if got := about(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
