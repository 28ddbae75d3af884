package evict

import (
	"testing"
	"time"
)

// TestHeld has the reasons for which no pod is evicted, and the cases in which one is nevertheless.
func TestHeld(t *testing.T) {
	t.Parallel()
	killed := func(ago time.Duration) []execution {
		return []execution{{Eviction: Eviction{UID: "first"}, freedAt: noon.Add(-ago)}}
	}
	unknown := with(sized("unknown", 0, 400, 0), func(p *Pod) { p.Unknown = true })
	stays := func(bytes uint64) map[string]uint64 { return map[string]uint64{"tmpfs": bytes * mi} }
	for name, test := range map[string]struct {
		snapshot    Snapshot
		state       State
		held        Hold
		victim      string
		noCandidate bool
		floor       uint64 // MiB
	}{
		"nothing keeps it": {look(50, sized("a", 0, 500, 0)), State{}, "", "a", false, 25},
		// While an eviction is open.
		"its memory comes back":                       {look(50, sized("a", 0, 500, 0)), State{Open: killed(time.Second)}, HoldReclaiming, "", false, 50},
		"it does not come back, and there was enough": {look(49, sized("a", 0, 500, 0)), State{Open: killed(time.Second)}, "", "a", false, 24},
		"less is left than half of what there was":    {look(24, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Floor: 25 * mi, Floored: true}, "", "a", false, 12},
		"just half is left":                           {look(25, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Floor: 25 * mi, Floored: true}, HoldReclaiming, "", false, 25},
		"less is left, and it frees":                  {look(24, sized("a", 0, 500, 0)), State{Open: killed(freeingWindow - 1), Floor: 25 * mi, Floored: true}, HoldReclaiming, "", false, 25},
		"less is left, and it frees no more":          {look(24, sized("a", 0, 500, 0)), State{Open: killed(freeingWindow), Floor: 25 * mi, Floored: true}, "", "a", false, 12},
		"less was left, and more has come since":      {look(80, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Floor: 25 * mi, Floored: true}, HoldReclaiming, "", false, 40},
		"nothing is left, and nothing was":            {look(0, sized("a", 0, 500, 0)), State{Open: killed(time.Second), Floored: true}, HoldReclaiming, "", false, 0},
		// Memory that stays.
		"without it there would be enough":           {look(50, sized("tmpfs", 0, 400, 0), sized("a", 0, 100, 0)), State{Stays: stays(400)}, HoldStays, "", true, 25},
		"it is what is short":                        {look(50, sized("tmpfs", 0, 60, 0), sized("a", 0, 100, 0)), State{Stays: stays(50)}, HoldStays, "", true, 25},
		"without it there would be too little":       {look(50, sized("tmpfs", 0, 60, 0), sized("a", 0, 100, 0)), State{Stays: stays(49)}, "", "a", false, 25},
		"its processes have more than what is short": {look(50, sized("tmpfs", 0, 449, 0), sized("a", 0, 100, 0)), State{Stays: stays(40)}, "", "tmpfs", false, 25},
		"the pod has less now":                       {look(50, sized("tmpfs", 0, 30, 0), sized("a", 0, 100, 0)), State{Stays: stays(400)}, "", "a", false, 25},
		"others grow beside it":                      {look(24, sized("tmpfs", 0, 400, 0), sized("a", 0, 100, 0)), State{Stays: stays(400), Floor: 25 * mi, Floored: true}, "", "a", false, 12},
		"it is another pod's that is gone":           {look(50, sized("a", 0, 100, 0)), State{Stays: stays(400)}, "", "a", false, 25},
		"it was evicted, and its memory is there":    {look(50, with(sized("b", 0, 400, 0), func(p *Pod) { p.Empty, p.Evicted = true, true }), sized("a", 0, 100, 0)), State{}, HoldStays, "", true, 25},
		"it was evicted, and runs again":             {look(50, with(sized("b", 0, 400, 0), func(p *Pod) { p.Evicted = true }), sized("a", 0, 100, 0)), State{}, "", "b", false, 25},
		// After an eviction that did not help.
		"the last one was of no use":                   {look(50, sized("a", 0, 500, 0)), State{Doubt: noon.Add(1)}, HoldDoubt, "", false, 25},
		"the last one was of no use, and that is over": {look(50, sized("a", 0, 500, 0)), State{Doubt: noon}, "", "a", false, 25},
		"the last one was of no use, and others grow":  {look(24, sized("a", 0, 500, 0)), State{Doubt: noon.Add(1), Floor: 25 * mi, Floored: true}, "", "a", false, 12},
		// An unknown pod.
		"somebody is unknown":                   {look(50, unknown, sized("a", 0, 300, 0)), State{}, HoldUnknown, "", false, 25},
		"somebody has been unknown for long":    {look(50, unknown, sized("a", 0, 300, 0)), State{UnknownSince: noon.Add(-unknownPatience)}, "", "unknown", false, 25},
		"somebody is unknown, and less is left": {look(24, unknown, sized("a", 0, 300, 0)), State{UnknownSince: noon.Add(-1), Floor: 25 * mi, Floored: true}, "", "unknown", false, 12},
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
			if d.Held != test.held || victim != test.victim || d.NoCandidate != test.noCandidate || d.State.Floor/mi != test.floor {
				t.Errorf("held %q, goes %q, nobody %t, floor %d MiB; want %q, %q, %t, %d", d.Held, victim, d.NoCandidate, d.State.Floor/mi,
					test.held, test.victim, test.noCandidate, test.floor)
			}
		})
	}
}

// TestHoldEnds: reasons to hold evictions back do not outlast the pressure.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	s := look(500)
	s.State.Floor, s.State.Floored, s.State.UnknownSince = 25*mi, true, noon
	if d := Decide(s); d.State.Floored || d.State.Floor != 0 || !d.State.UnknownSince.IsZero() || d.Held != "" {
		t.Errorf("%+v", d)
	}
}

// TestKernelCouldNotKeepTheLimit: the report of the kernel counts more than the computed value.
func TestKernelCouldNotKeepTheLimit(t *testing.T) {
	t.Parallel()
	s := look(300, sized("a", 0, 500, 0))
	s.OutOfMemory = true
	if d := Decide(s); d.Crossed != Hard || d.Victim == nil {
		t.Errorf("crossed %q, goes %+v", d.Crossed, d.Victim)
	}
	s.Config.Hard = 0
	if d := Decide(s); d.Crossed != "" || d.Victim != nil {
		t.Errorf("without a hard threshold crossed %q", d.Crossed)
	}
}
