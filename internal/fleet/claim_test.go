package fleet

import (
	"maps"
	"testing"
	"time"
)

// lease returns a lock with a claim in its annotations.
func lease(holder string, c Claim, more map[string]string) *Lock {
	l := c.Taken(nil, holder)
	l.Version, l.UID = "7", "uid"
	maps.Copy(l.Annotations, more)
	return l
}

func TestJudge(t *testing.T) {
	t.Parallel()
	claim := func(a Action, revision int) Claim {
		return Claim{Release: "ns/ours", Revision: revision, Action: a, Roll: "rolled"}
	}
	theirs := Claim{Release: "ns/theirs", Revision: 1, Action: Install, Roll: "other"}
	rolled := map[string]string{rolledAnnotation: "rolled"}
	waits := func(text string) map[string]string { return map[string]string{nextAnnotation: text} }
	const short, long = LeaseFor - 1, LeaseFor
	for name, test := range map[string]struct {
		claim     Claim
		lock      *Lock
		unchanged time.Duration
		renewed   bool
		want      Verdict
	}{
		"no Lease":                             {claim(Install, 1), nil, 0, false, Take},
		"no Lease, a removal":                  {claim(Uninstall, 1), nil, 0, false, Take},
		"no Lease, add":                        {claim(Add, 1), nil, 0, false, Yield},
		"free":                                 {claim(Install, 1), lease("", claim(Install, 1), nil), 0, false, Take},
		"free, of a release before":            {claim(Install, 2), lease("", claim(Install, 1), nil), 0, false, Take},
		"free, of a later revision":            {claim(Install, 1), lease("", claim(Install, 2), nil), 0, false, Refuse},
		"free, of a later revision, a removal": {claim(Uninstall, 1), lease("", claim(Install, 2), nil), 0, false, Take},
		"free, of a later revision, add":       {claim(Add, 1), lease("", claim(Install, 2), rolled), 0, false, Yield},
		"free, of another release":             {claim(Install, 1), lease("", theirs, nil), long, false, Refuse},
		"free, of another release, add":        {claim(Add, 1), lease("", theirs, nil), long, false, Refuse},
		"free, of another release, a removal":  {claim(Uninstall, 1), lease("", theirs, nil), long, false, Yield},
		"held by another release":              {claim(Install, 1), lease("x", theirs, nil), 0, false, Refuse},
		"dead, of another release":             {claim(Install, 1), lease("x", theirs, nil), long, false, Refuse},
		"held by the same roll":                {claim(Install, 1), lease("x", claim(Install, 1), nil), short, false, Await},
		"held by the same roll, renewed":       {claim(Install, 1), lease("x", claim(Install, 1), nil), short, true, Await},
		"silent as long as the lease":          {claim(Install, 1), lease("x", claim(Install, 1), nil), long, false, Take},
		"a Lease of no duration":               {claim(Install, 1), with0(lease("x", claim(Install, 1), nil)), short, false, Await},
		"held by a roll before":                {claim(Install, 2), lease("x", claim(Install, 1), nil), 0, false, Ask},
		"asked already":                        {claim(Install, 2), lease("x", claim(Install, 1), waits("install 2 rolled")), 0, false, Await},
		"another one asks":                     {claim(Install, 3), lease("x", claim(Install, 1), waits("install 2 r")), 0, false, Ask},
		"a later one asks":                     {claim(Install, 2), lease("x", claim(Install, 1), waits("install 3 r")), 0, false, Await},
		"nonsense asks":                        {claim(Install, 2), lease("x", claim(Install, 1), waits("install many")), 0, false, Ask},
		"held by add":                          {claim(Install, 1), lease("x", claim(Add, 1), nil), 0, false, Ask},
		"held by a removal":                    {claim(Install, 1), lease("x", claim(Uninstall, 1), nil), 0, false, Refuse},
		"a removal that died":                  {claim(Install, 1), lease("x", claim(Uninstall, 1), nil), long, false, Take},
		"removal, held by a roll":              {claim(Uninstall, 1), lease("x", claim(Install, 1), nil), 0, false, Ask},
		"removal, held by a removal":           {claim(Uninstall, 1), lease("x", claim(Uninstall, 1), nil), 0, false, Await},
		"add, the roll has ended":              {claim(Add, 1), lease("", claim(Install, 1), rolled), 0, false, Take},
		"add, the roll was stopped":            {claim(Add, 1), lease("", claim(Install, 1), nil), 0, false, Yield},
		"add, another roll has ended":          {claim(Add, 1), lease("", claim(Install, 1), map[string]string{rolledAnnotation: "other"}), 0, false, Yield},
		"add, a roll goes on":                  {claim(Add, 1), lease("x", claim(Install, 1), nil), 0, true, Yield},
		"add, perhaps a roll goes on":          {claim(Add, 1), lease("x", claim(Install, 1), nil), short, false, Await},
		"add, a roll died":                     {claim(Add, 1), lease("x", claim(Install, 1), nil), long, false, Yield},
		"add, a roll before goes on":           {claim(Add, 2), lease("x", claim(Install, 1), nil), 0, false, Await},
		"add, an add before goes on":           {claim(Add, 2), lease("x", claim(Add, 1), nil), 0, false, Await},
		"add, a removal goes on":               {claim(Add, 2), lease("x", claim(Uninstall, 1), nil), 0, false, Await},
		"add, another add goes on":             {claim(Add, 1), lease("x", claim(Add, 1), rolled), short, true, Yield},
		"add, another add died":                {claim(Add, 1), lease("x", claim(Add, 1), rolled), long, true, Take},
	} {
		got, why := test.claim.Judge(test.lock, test.unchanged, test.renewed)
		if got != test.want || (why == "") != (got == Take) {
			t.Errorf("%s: %d, %q; want %d", name, got, why, test.want)
		}
	}
}

func with0(l *Lock) *Lock {
	l.Duration = 0
	return l
}

// TestLease: what the Lease says after each step of a life.
func TestLease(t *testing.T) {
	t.Parallel()
	roll := Claim{Release: "ns/ours", Revision: 2, Action: Install, Roll: "r2"}
	l := roll.Taken(lease("", Claim{Release: "ns/ours", Revision: 1, Action: Install, Roll: "r1"}, map[string]string{rolledAnnotation: "r1", "other": "stays"}), "me")
	if l.Holder != "me" || l.Version != "7" || l.Transitions != 1 || l.claim() != roll || l.Annotations[rolledAnnotation] != "" || l.Annotations["other"] != "stays" {
		t.Errorf("taken: %+v", l)
	}
	if roll.GivesWay(l) != nil {
		t.Error("gives way to nothing")
	}
	later := Claim{Release: "ns/ours", Revision: 3, Action: Install, Roll: "r3"}
	asked := later.Asked(l)
	if next := roll.GivesWay(asked); next == nil || *next != later || asked.Holder != "me" || l.next() != nil {
		t.Errorf("asked: %+v", asked)
	}
	if later.GivesWay(roll.Asked(later.Taken(l, "you"))) != nil {
		t.Error("gives way to a revision before")
	}
	if l := roll.Taken(asked, "another"); l.next() != nil {
		t.Errorf("taken, and whoever waited before still does: %+v", l)
	}
	if roll.GivesWay((Claim{Release: "ns/ours", Revision: 3, Action: Add, Roll: "r3"}).Asked(l)) != nil {
		t.Error("gives way to add")
	}
	for end, want := range map[Ended]string{Interrupted: "", Stopped: "", Over: "r2"} {
		if got := roll.Released(asked, end); got.Holder != "" || got.next() != nil || got.Annotations[rolledAnnotation] != want || got.claim() != roll {
			t.Errorf("released after %d: %+v", end, got)
		}
	}
	// Add leaves the mark of the roll in place, unless failures have stopped it.
	over := roll.Released(l, Over)
	add := Claim{Release: "ns/ours", Revision: 2, Action: Add, Roll: "r2"}
	for end, want := range map[Ended]string{Interrupted: "r2", Stopped: "", Over: "r2"} {
		if got := add.Released(add.Taken(over, "me"), end); got.Annotations[rolledAnnotation] != want {
			t.Errorf("after add, %d: %+v", end, got)
		}
	}
	// A removal takes it away, and a release may be installed again with revision 1.
	removal := Claim{Release: "ns/ours", Revision: 2, Action: Uninstall, Roll: "u"}
	got := removal.Released(removal.Taken(over, "me"), Stopped)
	if got.Annotations[rolledAnnotation] != "" || got.claim().Revision != 0 || got.claim().Release != "ns/ours" {
		t.Errorf("after a removal: %+v", got)
	}
	if left := removal.Released(removal.Taken(over, "me"), Interrupted); left.claim() != removal {
		t.Errorf("after a removal that was interrupted: %+v", left)
	}
	if v, _ := (Claim{Release: "ns/ours", Revision: 1, Action: Install}).Judge(got, 0, false); v != Take {
		t.Errorf("installed again: %d", v)
	}
}

// TestAddStopped: an add that a failure has stopped does not go on at the next time of its schedule.
func TestAddStopped(t *testing.T) {
	t.Parallel()
	nodes := []Node{node("a", ""), node("b", ""), node("c", ""), node("d", "")}
	w := newWorld(t, Add, "", nodes...)
	for _, n := range nodes {
		w.ends[n.Name] = "4 verify: x"
	}
	claim := Claim{Release: "ns/ours", Revision: 1, Action: Add, Roll: "r1"}
	l := lease("", Claim{Release: "ns/ours", Revision: 1, Action: Install, Roll: "r1"}, map[string]string{rolledAnnotation: "r1"})
	for range 4 { // runs of the CronJob
		if v, _ := claim.Judge(l, 0, false); v != Take {
			break
		}
		l = claim.Taken(l, "me")
		w.start()
		if w.play(); w.r.Result().Stopped != "" {
			l = claim.Released(l, Stopped)
		} else {
			l = claim.Released(l, Over)
		}
	}
	if w.makes() != "a" {
		t.Errorf("made %s; want a alone: maxFailures is 0, and what a failure has stopped must not go on by a schedule", w.makes())
	}
}
