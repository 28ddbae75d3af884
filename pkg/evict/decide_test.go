package evict

import (
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/thresholds"
)

// noon is the time of the snapshots.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// guarded is a partition of 1000 MiB with both thresholds.
var guarded = Settings{
	Thresholds: thresholds.Thresholds{Limit: 1000 * mi, Hard: 100 * mi, Soft: 200 * mi, SoftGrace: time.Minute, MaxPodGrace: 20 * time.Second},
	Protected:  DefaultProtected, Cooldown: 10 * time.Minute,
}

// snapshotOf returns a snapshot with pods of a partition that has so many MiB left.
func snapshotOf(left int, pods ...Pod) Situation {
	return Situation{
		Now: noon, Config: guarded, API: true, Pods: pods,
		Memory: cgroups.MemoryReading{Current: uint64(1000-left) * mi, Max: 1000 * mi}, State: State{Cooldown: map[string]time.Time{}},
	}
}

func with(p Pod, change func(*Pod)) Pod {
	change(&p)
	return p
}

// softly returns a snapshot in which the soft threshold has been crossed for long enough.
func softly(s Situation) Situation {
	s.State.SoftSince = s.Now.Add(-s.Config.SoftGrace)
	return s
}

// TestDecideThresholds follows partitions over time.
func TestDecideThresholds(t *testing.T) {
	type step struct {
		at   time.Duration // since the first
		left int           // MiB available
		want Threshold
	}
	const s, m = time.Second, time.Minute
	for name, test := range map[string]struct {
		change func(*Settings)
		steps  []step
	}{
		"hard":                        {func(c *Settings) { c.Soft = 0 }, []step{{0, 101, ""}, {s, 100, ""}, {2 * s, 99, Hard}, {3 * s, 100, ""}, {4 * s, 0, Hard}}},
		"soft has a grace period":     {nil, []step{{0, 201, ""}, {s, 199, ""}, {60 * s, 199, ""}, {61 * s, 199, Soft}, {62 * s, 200, ""}}},
		"soft begins again":           {nil, []step{{0, 199, ""}, {59 * s, 200, ""}, {60 * s, 199, ""}, {119 * s, 150, ""}, {120 * s, 150, Soft}}},
		"soft without a grace period": {func(c *Settings) { c.SoftGrace = 0 }, []step{{0, 200, ""}, {s, 199, Soft}}},
		"hard does not wait for soft": {nil, []step{{0, 99, Hard}, {s, 199, ""}, {m, 199, Soft}}},
		"soft becomes hard":           {nil, []step{{0, 199, ""}, {m, 199, Soft}, {m + s, 99, Hard}, {m + 2*s, 100, Soft}, {m + 3*s, 200, ""}}},
		"hard alone, far beyond":      {func(c *Settings) { c.Soft = 0 }, []step{{0, -5, Hard}}},
		"soft alone":                  {func(c *Settings) { c.Hard = 0 }, []step{{0, 0, ""}, {m, 0, Soft}}},
		"none":                        {func(c *Settings) { c.Hard, c.Soft = 0, 0 }, []step{{0, 0, ""}, {m, 0, ""}}},
		"off":                         {func(c *Settings) { c.Off = true }, []step{{0, 0, ""}, {m, 0, ""}}},
		"minimum reclaim": {func(c *Settings) { c.Soft, c.MinimumReclaim = 0, 50*mi }, []step{
			{0, 149, ""}, {s, 99, Hard}, {2 * s, 100, Hard}, {3 * s, 149, Hard}, {4 * s, 150, ""}, {5 * s, 149, ""}, {6 * s, 100, ""}, {7 * s, 99, Hard},
		}},
		"minimum reclaim from soft needs no other grace period": {func(c *Settings) { c.MinimumReclaim = 50 * mi }, []step{
			{0, 249, ""}, {s, 199, ""}, {61 * s, 199, Soft}, {62 * s, 249, Soft}, {63 * s, 250, ""}, {64 * s, 199, ""}, {123 * s, 199, ""}, {124 * s, 199, Soft},
		}},
		"minimum reclaim of hard ends in soft": {func(c *Settings) { c.MinimumReclaim = 50 * mi }, []step{
			{0, 199, ""}, {s, 99, Hard}, {2 * s, 149, Hard}, {3 * s, 150, ""}, {m, 199, Soft}, {m + s, 249, Soft}, {m + 2*s, 250, ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			config, state := guarded, State{}
			if test.change != nil {
				test.change(&config)
			}
			for i, step := range test.steps {
				snapshot := Situation{
					Now: noon.Add(step.at), Config: config, State: state,
					Memory: cgroups.MemoryReading{Current: uint64(1000-step.left) * mi, Max: 1000 * mi},
				}
				d := Decide(snapshot)
				if d.Crossed != step.want {
					t.Fatalf("step %d, %s and %d MiB left: crossed %q, want %q", i, step.at, step.left, d.Crossed, step.want)
				}
				if underPressure(snapshot) != (step.want != "") {
					t.Fatalf("step %d: pressure is %t with %q crossed", i, underPressure(snapshot), step.want)
				}
				if want := uint64(max(step.left, 0)) * mi; d.Available != want {
					t.Fatalf("step %d: %d available, want %d", i, d.Available, want)
				}
				state = d.State
			}
		})
	}
}

func TestDecideLowerOfTwoLimits(t *testing.T) {
	for name, test := range map[string]struct {
		limit, max, used uint64
		left             uint64
		crossed          Threshold
		lower            bool
	}{
		"as configured":                      {1000, 1000, 850, 150, "", false},
		"the kernel's is lower, crossed":     {2000, 1000, 951, 49, Hard, false}, // thresholds are halved
		"the kernel's is lower, not crossed": {2000, 1000, 949, 51, "", false},
		"no limit of the kernel's":           {1000, math.MaxUint64, 950, 50, Hard, false},
		"no limit of the kernel's, below":    {1000, math.MaxUint64, 850, 150, "", true},
		"lowered below what is used":         {1000, 2000, 1500, 0, Hard, false},
		"lowered to what is used":            {1000, 2000, 1000, 0, Hard, false},
		"lowered, and the threshold is met":  {1000, 2000, 901, 99, Hard, false},
		"lowered, evicted down to it":        {1000, 2000, 900, 100, "", true},
		"lowered, far below":                 {1000, 2000, 10, 990, "", true},
	} {
		s := snapshotOf(0, sized("a", 0, 100, 0))
		s.Config.Limit, s.Config.Soft, s.Config.Lowering = test.limit*mi, 0, test.limit < test.max
		s.Memory = cgroups.MemoryReading{Current: test.used * mi, Max: test.max * mi}
		if test.max == math.MaxUint64 {
			s.Memory.Max = cgroups.Unlimited
		}
		d := Decide(s)
		if d.Available != test.left*mi || d.Crossed != test.crossed || d.LowerLimit != test.lower {
			t.Errorf("%s: %d left, crossed %q, lower %t; want %d, %q, %t", name, d.Available/mi, d.Crossed, d.LowerLimit, test.left, test.crossed, test.lower)
		}
		if (d.Victim != nil) != (test.crossed != "") {
			t.Errorf("%s: evicts %+v", name, d.Victim)
		}
	}
}

func TestDecideLowerLimitDelayed(t *testing.T) {
	lowered := snapshotOf(0)
	lowered.Config.Limit, lowered.Config.Lowering, lowered.Memory = 900*mi, true, cgroups.MemoryReading{Current: 500 * mi, Max: 1000 * mi}
	if !Decide(lowered).LowerLimit {
		t.Fatal("with nothing to wait for it is not lowered")
	}
	for name, change := range map[string]func(*Situation){
		"nothing is configured":                  func(s *Situation) { s.Config = Settings{} },
		"off":                                    func(s *Situation) { s.Config.Off = true },
		"dry run":                                func(s *Situation) { s.Config.DryRun = true },
		"an operator has raised it":              func(s *Situation) { s.Config.Lowering = false },
		"an eviction is open":                    func(s *Situation) { s.State.Open = []execution{{Eviction: Eviction{PodMeta: PodMeta{UID: "a"}}}} },
		"it fits with page cache that is in use": func(s *Situation) { s.Memory.Current, s.Memory.ActiveFile = 950*mi, 50*mi },
		"between threshold and minimum of reclaims": func(s *Situation) { s.Config.MinimumReclaim = 400 * mi; s.State.Reclaiming = Hard },
	} {
		s := lowered
		change(&s)
		if Decide(s).LowerLimit {
			t.Errorf("%s: is lowered", name)
		}
	}
	lent := lowered
	lent.Config.Limit, lent.Config.Burst, lent.Lent, lent.Memory.Current = 500*mi, 400*mi, 400*mi, 700*mi
	if !Decide(lent).LowerLimit {
		t.Error("it fits with what is lent, and is not lowered")
	}
	// An execution whose report alone is open does not prevent the lowering.
	lowered.State.Open = []execution{newExecution(Eviction{PodMeta: PodMeta{UID: "a"}, Gone: true})}
	if !Decide(lowered).LowerLimit {
		t.Error("waits for the API server")
	}
}

func TestDecideVictim(t *testing.T) {
	a := with(sized("a", 0, 500, 100), func(p *Pod) { p.GracePeriod = 30 * time.Second })
	static := func(p *Pod) { p.Static = true }
	for name, test := range map[string]struct {
		snapshot Situation
		change   func(*Situation)
		method   Method // empty for no eviction
		grace    time.Duration
	}{
		"hard":                              {snapshotOf(50, a), nil, Evict, 0},
		"soft, with the pod's grace period": {softly(snapshotOf(150, a)), func(s *Situation) { s.Pods[0].GracePeriod = 5 * time.Second }, Evict, 5 * time.Second},
		"soft, with the maximum":            {softly(snapshotOf(150, a)), nil, Evict, 20 * time.Second},
		"soft, with a maximum of zero":      {softly(snapshotOf(150, a)), func(s *Situation) { s.Config.MaxPodGrace = 0 }, Evict, leastGrace},
		"soft, without a maximum":           {softly(snapshotOf(150, a)), func(s *Situation) { s.Config.MaxPodGrace = -1 }, Evict, 30 * time.Second},
		"soft and beyond hard":              {softly(snapshotOf(50, a)), nil, Evict, 0},
		"no API server":                     {snapshotOf(50, a), func(s *Situation) { s.API = false }, Restart, 0},
		"static, not protected":             {snapshotOf(50, with(a, static)), func(s *Situation) { s.Config.Protected = Protected{} }, Restart, 0},
		"static, not protected, soft":       {softly(snapshotOf(150, with(a, static))), func(s *Situation) { s.Config.Protected = Protected{} }, Restart, 20 * time.Second},
		"static":                            {snapshotOf(50, with(a, static)), nil, "", 0},
		"owner in cooldown":                 {snapshotOf(50, a), func(s *Situation) { s.State.Cooldown[a.Owner] = noon.Add(1) }, Restart, 0},
		"owner's cooldown over":             {snapshotOf(50, a), func(s *Situation) { s.State.Cooldown[a.Owner] = noon }, Evict, 0},
		"another owner in cooldown":         {snapshotOf(50, a), func(s *Situation) { s.State.Cooldown["kube-system/b"] = noon.Add(time.Hour) }, Evict, 0},
		"dry run":                           {snapshotOf(50, a), func(s *Situation) { s.Config.DryRun = true }, Evict, 0},
		"without usage":                     {snapshotOf(50, sized("a", 0, -1, 100)), nil, Evict, 0},
		"being deleted":                     {snapshotOf(50, with(a, func(p *Pod) { p.Terminating = true })), nil, Evict, 0},
		"being deleted, owner in cooldown": {snapshotOf(50, with(a, func(p *Pod) { p.Terminating = true })),
			func(s *Situation) { s.State.Cooldown[a.Owner] = noon.Add(1) }, Evict, 0},
		"being deleted, soft": {softly(snapshotOf(150, with(a, func(p *Pod) { p.Terminating = true }))), nil, Evict, 20 * time.Second},
		"pod that is not started again, owner in cooldown": {snapshotOf(50, with(a, func(p *Pod) { p.EndsForGood = true })),
			func(s *Situation) { s.State.Cooldown[a.Owner] = noon.Add(1) }, Evict, 0},
		"not started again, no API server":   {snapshotOf(50, with(a, func(p *Pod) { p.EndsForGood = true })), func(s *Situation) { s.API = false }, Restart, 0},
		"guaranteed, of unknown priority":    {snapshotOf(50, with(a, func(p *Pod) { p.Estimated, p.QoS = true, v1.PodQOSGuaranteed })), nil, "", 0},
		"guaranteed, of known priority":      {snapshotOf(50, with(a, func(p *Pod) { p.QoS = v1.PodQOSGuaranteed })), nil, Evict, 0},
		"burstable, of unknown priority":     {snapshotOf(50, with(a, func(p *Pod) { p.Estimated = true })), nil, Evict, 0},
		"without processes, and with memory": {snapshotOf(50, with(a, func(p *Pod) { p.Empty = true })), nil, Evict, 0},
		"without processes, owner in cooldown": {snapshotOf(50, with(a, func(p *Pod) { p.Empty = true })),
			func(s *Situation) { s.State.Cooldown[a.Owner] = noon.Add(1) }, Evict, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.snapshot
			if test.change != nil {
				test.change(&s)
			}
			d := Decide(s)
			if d.NoCandidate != (test.method == "") || d.NoCandidate != (d.Victim == nil) {
				t.Fatalf("no candidate: %t, victim %+v; want %q", d.NoCandidate, d.Victim, test.method)
			}
			if d.Method != test.method || d.Grace != test.grace {
				t.Errorf("method %q with grace %s, want %q with %s", d.Method, d.Grace, test.method, test.grace)
			}
			if d.At != s.Config.threshold(d.Crossed) || d.LowerLimit || len(d.Hurry) != 0 {
				t.Errorf("decided %+v", d)
			}
		})
	}
}

func TestDecideOneAtATime(t *testing.T) {
	graceful := Eviction{PodMeta: PodMeta{UID: "a"}, Verdict: Verdict{Grace: 10 * time.Second, Threshold: Soft}}
	atOnce := Eviction{PodMeta: PodMeta{UID: "a"}, Verdict: Verdict{Threshold: Hard}}
	gone := func(e Eviction) Eviction {
		e.Gone = true
		return e
	}
	for name, test := range map[string]struct {
		snapshot Situation
		open     Eviction
		victim   bool
		hurry    bool
	}{
		"open, below the soft threshold":                     {softly(snapshotOf(150, sized("b", 0, 100, 0))), graceful, false, false},
		"open with a grace period, below the hard threshold": {snapshotOf(50, sized("b", 0, 100, 0)), graceful, false, true},
		"open without a grace period":                        {snapshotOf(50, sized("b", 0, 100, 0)), atOnce, false, false},
		"ended, not enough":                                  {snapshotOf(50, sized("b", 0, 100, 0)), gone(atOnce), true, false},
		"ended in its grace period, not enough":              {snapshotOf(50, sized("b", 0, 100, 0)), gone(graceful), true, false},
		"ended, and there is enough":                         {snapshotOf(500, sized("b", 0, 100, 0)), gone(atOnce), false, false},
		"still open, and there is enough":                    {snapshotOf(500, sized("b", 0, 100, 0)), graceful, false, false},
		"ended, not enough for the soft threshold":           {softly(snapshotOf(150, sized("b", 0, 100, 0))), gone(atOnce), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.snapshot
			s.State.Open = []execution{newExecution(test.open)}
			d := Decide(s)
			if (d.Victim != nil) != test.victim || d.NoCandidate {
				t.Errorf("evicts %+v, no candidate %t; want a victim: %t", d.Victim, d.NoCandidate, test.victim)
			}
			if underPressure(s) != test.victim {
				t.Errorf("pods are read: %t", underPressure(s))
			}
			if test.hurry != (len(d.Hurry) == 1) || test.hurry && d.Hurry[0].UID != "a" {
				t.Errorf("hurries %+v, want %t", d.Hurry, test.hurry)
			}
			if len(d.State.Open) != 1 {
				t.Errorf("forgets it: %+v", d.State)
			}
		})
	}
}

// TestDecideOffKeepsOpen: open evictions are completed, and closed ones are kept.
func TestDecideOffKeepsOpen(t *testing.T) {
	s := snapshotOf(0, sized("a", 0, 100, 0))
	s.Config.Off = true
	s.State = State{Reclaiming: Hard, SoftSince: noon, Open: []execution{{Eviction: Eviction{PodMeta: PodMeta{UID: "a"}}}}, Cooldown: map[string]time.Time{"x": noon}}
	d := Decide(s)
	if d.State.Reclaiming != "" || !d.State.SoftSince.IsZero() || len(d.State.Open) != 1 || len(d.State.Cooldown) != 1 {
		t.Errorf("state is %+v", d.State)
	}
}

// A threshold of 0 is never crossed, not even while pods are evicted because of it. Switching it
// off takes effect at once.
func TestDecideThresholdOff(t *testing.T) {
	t.Parallel()
	for _, crossed := range []Threshold{Hard, Soft} {
		s := snapshotOf(10, sized("a", 0, 100, 0))
		s.Config.Hard, s.Config.Soft, s.Config.MinimumReclaim = 0, 0, 50*mi
		s.State.Reclaiming = crossed
		if d := Decide(s); d.Crossed != "" || d.Victim != nil || d.State.Reclaiming != "" {
			t.Errorf("%s: crossed %q, evicts %+v, state %+v", crossed, d.Crossed, d.Victim, d.State)
		}
	}
}

// A limit is lowered when all usage and the next page fit below it: at exactly the limit the kernel
// would kill for that page. Thresholds keep usage farther away from it, if there are any.
func TestDecideLowerLimitNextPage(t *testing.T) {
	t.Parallel()
	for used, want := range map[uint64]bool{900*mi - 1: true, 900 * mi: false, 900*mi + 1: false} {
		s := snapshotOf(0)
		s.Config = Settings{Thresholds: thresholds.Thresholds{Limit: 900 * mi}, Lowering: true}
		s.Memory = cgroups.MemoryReading{Current: used, Max: 1000 * mi}
		if d := Decide(s); d.LowerLimit != want || d.Crossed != "" {
			t.Errorf("%d used: lowers it: %t, crossed %q; want %t", used, d.LowerLimit, d.Crossed, want)
		}
	}
}

// Thresholds are parts of the limit in force. A limit that the kernel has rounded down is the same
// limit.
func TestSnapshotEffective(t *testing.T) {
	t.Parallel()
	const limit = 1000 * mi
	for name, test := range map[string]struct {
		limit, max       uint64
		hard, soft, more uint64 // more is MinimumReclaim
	}{
		"none":                       {limit, cgroups.Unlimited, 100 * mi, 200 * mi, 50 * mi},
		"waiting to be lowered":      {limit, 2 * limit, 100 * mi, 200 * mi, 50 * mi},
		"the configured one":         {limit, limit, 100 * mi, 200 * mi, 50 * mi},
		"rounded to pages of 4 KiB":  {limit + 4095, limit, 100 * mi, 200 * mi, 50 * mi},
		"rounded to pages of 64 KiB": {limit + 65535, limit, 100 * mi, 200 * mi, 50 * mi},
		"half":                       {limit, limit / 2, 50 * mi, 100 * mi, 25 * mi},
		"a fifth":                    {limit, limit / 5, 20 * mi, 40 * mi, 10 * mi},
		"lower by the rounding": {
			1 << 30, 1<<30 - rounding, 100*mi - 12800, 200*mi - 25600, 50*mi - 6400,
		},
		"lower by a byte less than the rounding": {1 << 30, 1<<30 - rounding + 1, 100 * mi, 200 * mi, 50 * mi},
		"a limit below the rounding":             {4096, 4095, 100 * mi, 200 * mi, 50 * mi},
	} {
		s := Situation{Config: guarded, Memory: cgroups.MemoryReading{Max: test.max}}
		s.Config.Limit, s.Config.MinimumReclaim = test.limit, 50*mi
		c := s.Effective()
		if c.Hard != test.hard || c.Soft != test.soft || c.MinimumReclaim != test.more {
			t.Errorf("%s: thresholds %d and %d, and %d more; want %d, %d, %d",
				name, c.Hard, c.Soft, c.MinimumReclaim, test.hard, test.soft, test.more)
		}
	}
}

// TestDecideLowered: a limit that is lowered far below the usage is reached by the usual order.
// What is missing in all does not make an eviction vain that frees a part of it.
func TestDecideLowered(t *testing.T) {
	files := func(name string) Pod { return sized(name, 0, 500, 10) }
	ended := func(name string) Pod { return with(sized(name, 0, 400, 10), func(p *Pod) { p.Empty = true }) }
	for name, test := range map[string]struct {
		pods []Pod
		want string
	}{
		"leaks that leave some files": {[]Pod{files("leak1"), files("leak2"), files("leak3"), sized("rest", 0, 400, 500)}, "leak1"},
		"one of two":                  {[]Pod{sized("leak1", 0, 410, 10), sized("rest", 0, 1400, 1500)}, "leak1"},
		"a pod that has ended":        {[]Pod{ended("leak1"), sized("rest", 0, 1400, 1500)}, "leak1"},
		"pods that have ended":        {[]Pod{ended("leak1"), ended("leak2"), ended("leak3"), sized("rest", 0, 600, 700)}, "leak1"},
	} {
		for _, burst := range []uint64{0, 1000 * mi} {
			s := snapshotOf(0, test.pods...)
			s.Config.Soft, s.Config.Lowering, s.Config.Burst = 0, burst == 0, burst
			s.Memory = cgroups.MemoryReading{Current: 1900 * mi, Max: 2000 * mi}
			s.State.Unreclaimable = map[string]uint64{"leak1": 10 * mi, "leak2": 10 * mi, "leak3": 10 * mi}
			if d := Decide(s); d.Victim == nil || d.Victim.Name != test.want {
				t.Errorf("%s, burst %d: evicts %+v, want %s; held %q", name, burst/mi, d.Victim, test.want, d.Held)
			}
		}
	}
}
