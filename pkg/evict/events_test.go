package evict

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// written is a sink that has all methods, and a list of what it was called with.
type written struct {
	name string
	to   *[]string
}

func (w written) add(what string, args ...any) {
	*w.to = append(*w.to, w.name+" "+what+" "+fmt.Sprint(args...))
}

func (w written) Evicting(e Eviction, reaction time.Duration) {
	w.add("evicting", e.Name, " ", reaction)
}
func (w written) Resumed(e Eviction)                     { w.add("resumed", e.Name) }
func (w written) Evicted(e Eviction, took time.Duration) { w.add("evicted", e.Name, " ", took) }
func (w written) Failed(e Eviction, s Step, err error)   { w.add("failed", e.Name, " ", s, " ", err) }
func (w written) NoCandidate(d Decision)                 { w.add("no candidate", d.Held) }
func (w written) KernelKilled(limit KilledAt, n uint64)  { w.add("killed", limit, " ", n) }
func (w written) Warn(err error)                         { w.add("warn", err) }

// warned is a sink with one method.
type warned struct {
	NoEvents
	to *[]string
}

func (w warned) Warn(err error) { *w.to = append(*w.to, "warned "+err.Error()) }

// TestSinks: each event gets to each sink, in the order of the list, and a sink ignores what it has
// no method for.
func TestSinks(t *testing.T) {
	t.Parallel()
	var got []string
	var sinks Events = Sinks{written{"a", &got}, warned{to: &got}, NoEvents{}, written{"b", &got}}
	e := Eviction{PodMeta: PodMeta{Name: "dns"}}
	sinks.Evicting(e, time.Second)
	sinks.Resumed(e)
	sinks.Evicted(e, time.Minute)
	sinks.Failed(e, StepAPI, errors.New("away"))
	sinks.NoCandidate(Decision{Held: HoldStays})
	sinks.KernelKilled(AtPod, 2)
	sinks.Warn(errors.New("slow"))
	want := []string{
		"a evicting dns 1s", "b evicting dns 1s", "a resumed dns", "b resumed dns", "a evicted dns 1m0s", "b evicted dns 1m0s",
		"a failed dns api away", "b failed dns api away", "a no candidate memory-stays", "b no candidate memory-stays",
		"a killed pod 2", "b killed pod 2", "a warn slow", "warned slow", "b warn slow",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	Sinks(nil).Warn(errors.New("nobody")) // a list may be empty
}
