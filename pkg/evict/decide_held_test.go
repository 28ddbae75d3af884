package evict

import (
	"slices"
	"testing"
	"time"
)

// TestDecideHeld has the reasons for which no pod is evicted, and the cases in which one is
// nevertheless.
func TestDecideHeld(t *testing.T) {
	t.Parallel()
	killed := func(ago time.Duration) []execution {
		return []execution{{Eviction: Eviction{PodMeta: PodMeta{UID: "first"}}, freedAt: noon.Add(-ago)}}
	}
	using := func(mebibytes uint64) []execution {
		open := killed(time.Second)
		open[0].UID, open[0].UsedBytes = sized("first", 0, 0, 0).UID, mebibytes*mi
		return open
	}
	abandoned := using(300)[0]
	abandoned.phase = reclaimed
	unknown := with(sized("unknown", 0, 400, 0), func(p *Pod) { p.Unknown = true })
	stays := func(bytes uint64) map[string]uint64 { return map[string]uint64{"tmpfs": bytes * mi} }
	for name, test := range map[string]struct {
		snapshot    Situation
		state       State
		held        Hold
		victim      string
		noCandidate bool
		floor       uint64 // MiB
	}{
		"not held": {snapshotOf(50, sized("a", 0, 500, 0)), State{}, "", "a", false, 25},
		// While an eviction is open.
		"reclaiming":                                        {snapshotOf(50, sized("a", 0, 500, 0)), State{Open: killed(time.Second)}, HoldReclaiming, "", false, 50},
		"reclaiming, and there was enough since":            {snapshotOf(49, sized("a", 0, 500, 0)), State{Open: killed(time.Second)}, "", "a", false, 24},
		"reclaiming, below the floor":                       {snapshotOf(24, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Base: 950 * mi}, "", "a", false, 12},
		"reclaiming, at the floor":                          {snapshotOf(25, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Base: 950 * mi}, HoldReclaiming, "", false, 25},
		"below the floor, still freeing":                    {snapshotOf(24, sized("a", 0, 500, 0)), State{Open: killed(freeingWindow - 1), Base: 950 * mi}, HoldReclaiming, "", false, 25},
		"below the floor, no longer freeing":                {snapshotOf(24, sized("a", 0, 500, 0)), State{Open: killed(freeingWindow), Base: 950 * mi}, "", "a", false, 12},
		"below a floor that shows something":                {snapshotOf(1, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Base: 1000*mi - 2*flutter}, "", "a", false, 0},
		"below a floor that shows nothing":                  {snapshotOf(1, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Base: 1001*mi - 2*flutter}, HoldReclaiming, "", false, 3},
		"above the floor again":                             {snapshotOf(80, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Base: 950 * mi}, HoldReclaiming, "", false, 40},
		"nothing left, floor of zero":                       {snapshotOf(0, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Base: 1000 * mi}, HoldReclaiming, "", false, 0},
		"below the floor, because the victim grew":          {snapshotOf(5, sized("first", 0, 320, 0), sized("a", 0, 500, 0)), State{Open: using(300), Base: 950 * mi}, HoldReclaiming, "", false, 25},
		"below the floor, and another pod grew too":         {snapshotOf(4, sized("first", 0, 320, 0), sized("a", 0, 500, 0)), State{Open: using(300), Base: 950 * mi}, "", "a", false, 2},
		"below the floor, the victim's memory is abandoned": {snapshotOf(5, sized("first", 0, 320, 0), sized("a", 0, 500, 0)), State{Open: append(killed(time.Second), abandoned), Base: 950 * mi}, "", "a", false, 2},
		// Memory that stays.
		"enough without the memory that stays":    {snapshotOf(50, sized("tmpfs", 0, 400, 0), sized("a", 0, 100, 0)), State{Unreclaimable: stays(400)}, HoldUnreclaimable, "", true, 25},
		"memory that stays is the shortage":       {snapshotOf(50, sized("tmpfs", 0, 60, 0), sized("a", 0, 100, 0)), State{Unreclaimable: stays(50)}, HoldUnreclaimable, "", true, 25},
		"memory that stays is below the shortage": {snapshotOf(50, sized("tmpfs", 0, 60, 0), sized("a", 0, 100, 0)), State{Unreclaimable: stays(49)}, "", "a", false, 25},
		"processes use more than the shortage":    {snapshotOf(50, sized("tmpfs", 0, 449, 0), sized("a", 0, 100, 0)), State{Unreclaimable: stays(40)}, "", "tmpfs", false, 25},
		"memory that stayed has shrunk":           {snapshotOf(50, sized("tmpfs", 0, 30, 0), sized("a", 0, 100, 0)), State{Unreclaimable: stays(400)}, "", "a", false, 25},
		"another pod grows beside it":             {snapshotOf(24, sized("tmpfs", 0, 400, 0), sized("a", 0, 100, 0)), State{Unreclaimable: stays(400), Base: 950 * mi}, "", "a", false, 12},
		"memory of a removed pod":                 {snapshotOf(50, sized("a", 0, 100, 0)), State{Unreclaimable: stays(400)}, "", "a", false, 25},
		"evicted, memory still there":             {snapshotOf(50, with(sized("b", 0, 400, 0), func(p *Pod) { p.Empty, p.Evicted = true, true }), sized("a", 0, 100, 0)), State{}, HoldUnreclaimable, "", true, 25},
		"evicted, runs again":                     {snapshotOf(50, with(sized("b", 0, 400, 0), func(p *Pod) { p.Evicted = true }), sized("a", 0, 100, 0)), State{}, "", "b", false, 25},
		// An unknown pod.
		"a pod is unknown":                   {snapshotOf(50, unknown, sized("a", 0, 300, 0)), State{}, HoldUnknown, "", false, 25},
		"a pod has been unknown for long":    {snapshotOf(50, unknown, sized("a", 0, 300, 0)), State{UnknownSince: noon.Add(-unknownPatience)}, "", "unknown", false, 25},
		"a pod is unknown, and less is left": {snapshotOf(24, unknown, sized("a", 0, 300, 0)), State{UnknownSince: noon.Add(-1), Base: 950 * mi}, "", "unknown", false, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := test.snapshot
			s.State = test.state
			if s.State.Cooldown == nil {
				s.State.Cooldown = map[string]time.Time{}
			}
			d := Decide(s)
			victim := ""
			if d.Victim != nil {
				victim = d.Victim.Name
			}
			if d.Held != test.held || victim != test.victim || d.NoCandidate != test.noCandidate || s.halfway(d.State.Base) != (1000-test.floor)*mi && s.halfway(d.State.Base) != (1000-test.floor)*mi-mi/2 {
				t.Errorf("held %q, victim %q, no candidate %t, floor %d MiB; want %q, %q, %t, %d", d.Held, victim, d.NoCandidate, (1000*mi-s.halfway(d.State.Base))/mi,
					test.held, test.victim, test.noCandidate, test.floor)
			}
		})
	}
}

// TestDecideHeldEnds: reasons to hold evictions back do not outlast the pressure.
func TestDecideHeldEnds(t *testing.T) {
	t.Parallel()
	s := snapshotOf(500)
	s.State.Base, s.State.UnknownSince = 950*mi, noon
	if d := Decide(s); d.State.Base != 0 || !d.State.UnknownSince.IsZero() || d.Held != "" {
		t.Errorf("%+v", d)
	}
}

// TestDecideOutOfMemory: slabs that the kernel could not reclaim count as used, and figures and
// reason agree.
func TestDecideOutOfMemory(t *testing.T) {
	t.Parallel()
	s := snapshotOf(300, sized("a", 0, 500, 0))
	s.Memory.Current, s.Memory.SlabReclaimable = 990*mi, 580*mi
	if d := Decide(s); d.Crossed != "" {
		t.Errorf("without an oom crossed %q", d.Crossed)
	}
	s.Evidence = proof
	if d := Decide(s); d.Crossed != Hard || d.Victim == nil || d.Available != 10*mi || d.At != 100*mi {
		t.Errorf("crossed %q, victim %+v, available %d of %d", d.Crossed, d.Victim, d.Available, d.At)
	}
	s.Config.Hard = 0
	if d := Decide(s); d.Crossed != "" || d.Victim != nil {
		t.Errorf("without a hard threshold crossed %q", d.Crossed)
	}
}

// TestDecideFreesHalf: a pod whose memory stays in part is skipped if its end would free less
// than half of what is missing. What is missing includes slabs that the kernel could not
// reclaim.
func TestDecideFreesHalf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		stuck bool
		frees uint64
		want  Skip
	}{
		// 100 MiB and 20 MiB and a byte are wanted, and 90 MiB available.
		{false, 15*mi + 1, ""}, {false, 15 * mi, SkipUnreclaimable},
		{true, 60*mi + 1, ""}, {true, 60 * mi, SkipUnreclaimable},
	} {
		const remains = 200 * mi
		pod := with(sized("a", 0, 0, 0), func(p *Pod) { p.Usage.Used = remains + test.frees })
		s := snapshotOf(90, pod)
		s.Config.MinimumReclaim = 20*mi + 1
		if test.stuck { // all of the threshold is missing
			s.Memory.Current, s.Memory.SlabReclaimable, s.Evidence = 1000*mi, 180*mi, proof
		}
		s.State.Unreclaimable = map[string]uint64{pod.UID: remains}
		if d := Decide(s); len(d.Order) != 1 || d.Order[0].Skip != test.want {
			t.Errorf("%+v: %+v, want %q", test, d.Order, test.want)
		}
	}
}

// TestDecideOutOfMemoryWhileHeld: if all memory has gone between two polls, an eviction does
// not wait until half of nothing is lost. It does wait for memory that is about to come back,
// and no pod is evicted for memory that stays.
func TestDecideOutOfMemoryWhileHeld(t *testing.T) {
	t.Parallel()
	unknown := with(sized("unknown", 0, 400, 0), func(p *Pod) { p.Unknown = true })
	dying := proof
	dying.KilledAt = noon.Add(-oomSettle)
	for name, test := range map[string]struct {
		state    State
		evidence evidence
		held     Hold
	}{
		"unknown":          {State{UnknownSince: noon.Add(-time.Second)}, proof, ""},
		"reclaiming":       {State{Open: []execution{{Eviction: Eviction{PodMeta: PodMeta{UID: "first"}}, freedAt: noon.Add(-time.Second)}}}, proof, HoldReclaiming},
		"the kernel kills": {State{}, dying, HoldReclaiming},
		"memory stays":     {State{Unreclaimable: map[string]uint64{"a": 500 * mi}}, proof, HoldUnreclaimable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := snapshotOf(0, unknown, sized("a", 0, 500, 0))
			s.State, s.Evidence = test.state, test.evidence
			s.State.Base, s.State.Cooldown = 1000*mi, map[string]time.Time{}
			d := Decide(s)
			if d.Held != test.held || (d.Victim == nil) != (test.held != "") {
				t.Errorf("held %q, victim %+v", d.Held, d.Victim)
			}
			if got := underPressure(s); got != (test.held != HoldReclaiming) {
				t.Errorf("the pods are read: %t", got)
			}
		})
	}
}

// proof is an oom of a second ago that nothing has answered.
var proof = evidence{since: noon.Add(-oomSettle), LastAt: noon.Add(-oomSettle), QuietAt: noon.Add(-oomSettle)}

// TestDecideRemainsGrow: a pod whose memory stays is stopped again if it is the one that grows, and
// no other pod is stopped for it.
func TestDecideRemainsGrow(t *testing.T) {
	for name, test := range map[string]struct {
		files  int // the present usage of the pod whose memory stays
		change func(*Pod)
		want   string
	}{
		"files grow":                      {630, nil, "files"},
		"files have grown before the end": {630, func(p *Pod) { p.Empty = true }, ""},
		"another grows":                   {600, nil, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			files := sized("files", 0, test.files, 0)
			if test.change != nil {
				test.change(&files)
			}
			s := snapshotOf(15, files, sized("other", 0, 300, 0))
			s.API = false
			s.State.Unreclaimable = map[string]uint64{"files": 600 * mi}
			s.State.Base = 956 * mi
			s.State.PodBase = map[string]uint64{"files": 600 * mi, "other": 300 * mi}
			got := ""
			if d := Decide(s); d.Victim != nil {
				got = d.Victim.Name
			}
			if got != test.want {
				t.Errorf("chose %q, want %q", got, test.want)
			}
		})
	}
}

// TestDecideRemainsUnread: the Base was set without reading the pods, so that it is not known what
// they used then. A fall counts once as a fall of the memory that stays. Another pod that grows
// afterwards is found.
func TestDecideRemainsUnread(t *testing.T) {
	files, other := sized("files", 0, 600, 0), sized("other", 0, 300, 0)
	files.Empty = true
	s := snapshotOf(15, files, other)
	s.API = false
	s.State.Base = 956 * mi
	d := Decide(s)
	if d.Victim != nil || d.Held != HoldUnreclaimable || d.State.Base != 985*mi {
		t.Errorf("chose %+v, held by %q, with a base of %d", d.Victim, d.Held, d.State.Base)
	}
	for grown, want := range map[int]bool{300: false, 308: true} {
		other.Usage = Usage{WorkingSet: uint64(grown) * mi, Used: uint64(grown) * mi}
		next := snapshotOf(315-grown, files, other)
		next.API, next.State = false, d.State
		if got := Decide(next).Victim; (got != nil) != want || want && got.Name != "other" {
			t.Errorf("with %d MiB chose %+v", grown, got)
		}
	}
}

// TestDecideWithinRequestUnreclaimable: a pod within its request is not evicted for memory that
// stays beyond the request of another, unless it has itself used up the rest. A container that was
// started again is no growth.
func TestDecideWithinRequestUnreclaimable(t *testing.T) {
	t.Parallel()
	files := with(sized("files", 0, 600, 20), func(p *Pod) { p.Empty = true })
	within := func(used int) Pod { return sized("within", 0, used, 350) }
	floor := func(used uint64) State {
		return State{Base: 956 * mi, PodBase: map[string]uint64{"files": 600 * mi, "within": used * mi}}
	}
	reclaiming := func(state State) State {
		state.Open = []execution{{Eviction: Eviction{PodMeta: PodMeta{UID: "first"}}, freedAt: noon.Add(-time.Second)}}
		return state
	}
	for name, test := range map[string]struct {
		left  int
		state State
		pods  []Pod
		want  string
		held  Hold
	}{
		"at rest":                     {15, floor(300), []Pod{files, within(300)}, "", HoldUnreclaimable},
		"grown, and more than itself": {10, floor(300), []Pod{files, within(311)}, "", HoldUnreclaimable},
		"grown":                       {10, floor(300), []Pod{files, within(312)}, "within", ""},
		"started again":               {10, floor(0), []Pod{files, within(312)}, "", HoldUnreclaimable},
		"over its request":            {15, floor(300), []Pod{files, sized("within", 0, 300, 299)}, "within", ""},
		"the files are requested":     {15, floor(300), []Pod{with(files, func(p *Pod) { p.Request = 580 * mi }), within(300)}, "within", ""},
		"other memory is awaited":     {15, reclaiming(floor(300)), []Pod{files, within(300)}, "", HoldReclaiming},
		"awaited, and grown":          {10, reclaiming(floor(300)), []Pod{files, within(312)}, "within", ""},
		"no base":                     {15, State{PodBase: floor(1).PodBase, Unreclaimable: map[string]uint64{"files": 50 * mi}}, []Pod{sized("files", 0, 90, 0), within(300)}, "", HoldUnreclaimable},
	} {
		s := snapshotOf(test.left, test.pods...)
		s.API, s.State = false, test.state
		d := Decide(s)
		victim := ""
		if d.Victim != nil {
			victim = d.Victim.Name
		}
		if victim != test.want || d.Held != test.held || d.NoCandidate != (test.held == HoldUnreclaimable) {
			t.Errorf("%s: victim %q, held %q, no candidate %t; want %q, %q", name, victim, d.Held, d.NoCandidate, test.want, test.held)
		}
		if want := uint64(1000-test.left) * mi; d.State.Base != want {
			t.Errorf("%s: the next fall counts from %d bytes, want %d", name, d.State.Base, want)
		}
	}
	// Nothing is missing.
	d := Decide(snapshotOf(500, files, within(300)))
	if skip := d.Order[slices.IndexFunc(d.Order, func(c Candidate) bool { return c.Name == "within" })].Skip; skip != "" {
		t.Errorf("with 500 MiB left it is passed over: %q", skip)
	}
}
