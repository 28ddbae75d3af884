package recommend

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/samples"
)

func (a *Advice) warns(text string) bool {
	return slices.ContainsFunc(a.Warnings, func(w string) bool { return strings.Contains(w, text) })
}

// TestReadElsewhere: a copy of the history of another node is judged by the CPUs and the memory of
// that node, and gets no field of this one's section. Where they are not recorded, it says so.
func TestReadElsewhere(t *testing.T) {
	t.Parallel()
	m := made{pods: usual()}
	a := m.advise(t, samples.Node{CPUs: 256, MemoryBytes: 1 << 40, PageBytes: 4096, Pods: 40})
	// 128Mi for 256 CPUs, and 231Mi.
	if a.EvictionHard.Bytes != 128*mebi || a.MemoryLimit.Bytes != 368*mebi || len(a.NoSection) > 0 || a.warns("for this one") {
		t.Errorf("%dMi and %dMi, %q, %q", a.MemoryLimit.Bytes/mebi, a.EvictionHard.Bytes/mebi, a.NoSection, a.Warnings)
	}
	if len(a.Section) != 3 || !a.warns("comes from another folder") || a.warns("try would refuse it") {
		t.Errorf("%v, %q", a.Section, a.Warnings)
	}
	// On arm64 with pages of 64 KiB the kernel's counts lag by more.
	if a := m.advise(t, samples.Node{CPUs: 8, MemoryBytes: 1 << 40, PageBytes: 64 << 10, Pods: 40}); a.EvictionHard.Bytes != 64*mebi {
		t.Errorf("%dMi", a.EvictionHard.Bytes/mebi)
	}
	if a := m.advise(t, samples.Node{CPUs: 8, MemoryBytes: 256 * mebi, PageBytes: 4096}); a.Section != nil || a.Verdict() == nil {
		t.Errorf("%q, %v", a.NoSection, a.Section)
	}
	m.change = func(_ time.Duration, s *samples.Sample) { s.Node = nil }
	if a := m.advise(t, usualNode); !a.warns("the figures are for this one, with ") {
		t.Errorf("%q", a.Warnings)
	}
}

// TestReadClockNotSet: a sample of a clock that was never set, and one of the future, are left out,
// and the advice says so.
func TestReadClockNotSet(t *testing.T) {
	t.Parallel()
	m := made{pods: usual(), change: func(since time.Duration, s *samples.Sample) {
		s.Up = 0
		switch {
		case since <= 20*time.Minute:
			s.Time = time.Unix(600, 0).UTC().Add(since)
		case since > 8*day-10*time.Minute:
			s.Time = s.Time.Add(24 * time.Hour)
		}
		s.Partition.PeakTime = s.Time
	}}
	a := m.advise(t, usualNode)
	if !a.warns("2 samples are from before 2020") || !a.warns("1 samples are from the future") || a.History.From.Year() != now.Year() {
		t.Errorf("from %s, %q", a.History.From, a.Warnings)
	}
}

// TestReadNothing: a history that is empty, or has no partition, is told from a recommendation.
func TestReadNothing(t *testing.T) {
	t.Parallel()
	a, err := (&Options{Dir: t.TempDir(), Now: now}).advise(t.Context(), samples.History{})
	if err != nil || a.Verdict() == nil || !strings.Contains(a.Verdict().Error(), "the history is empty") {
		t.Errorf("%v, %v", err, a.Verdict())
	}
	m := made{pods: usual(), change: func(_ time.Duration, s *samples.Sample) { s.Partition = nil }}
	if a := m.advise(t, usualNode); a.KubeReserved == nil || a.Verdict() == nil {
		t.Errorf("%+v, %v", a.KubeReserved, a.Verdict())
	}
}
