package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"nodepartition/internal/command/status"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

const mebi = 1 << 20

// noon is the time of a reading.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.Local)

// pressed returns the status of a node whose partition is nearly full.
func pressed() status.Status {
	limit := uint64(512 * mebi)
	return status.Status{
		Service: "ready",
		Report: podmove.Report{Time: noon, Pods: []podmove.PodReport{
			{Namespace: "kube-system", Name: "late", Member: true, Belongs: unitname.System, Misplaced: 1},
			{Namespace: "shop", Name: "web", Misplaced: 0},
		}},
		Partitions: []status.Active{{
			Name: unitname.System, LimitBytes: &limit, Used: status.Used{UsedBytes: 256 * mebi, UsedPeakBytes: 384 * mebi},
			Eviction: &status.Eviction{
				Mode: "on", HardBytes: 128 * mebi,
				Order: []status.Candidate{
					{Namespace: "kube-system", Name: "logs", WorkingSetBytes: 200 * mebi, RequestBytes: 64 * mebi},
					{Namespace: "kube-system", Name: "proxy", Priority: 2000001000, WorkingSetBytes: 20 * mebi, Skip: "node-critical"},
				},
				Last: []evict.Eviction{{
					PodMeta: evict.PodMeta{Namespace: "kube-system", Name: "old\x1b[2J"}, Verdict: evict.Verdict{Time: noon.Add(-time.Hour)},
				}},
			},
		}},
	}
}

// plainFrame returns a frame without colours.
func plainFrame(v scene, width, height, scroll int) string {
	return ansi.Strip(strings.Join(frame(v, width, height, scroll, keys), "\n"))
}

// TestFrame: the screen shows the memory with its threshold, the last eviction, the pods in the
// order of evictions, and no control character of a pod's name.
func TestFrame(t *testing.T) {
	t.Parallel()
	const want = `node-partition top, 12:00:00
service ready

system  used 256Mi of 512Mi, at most 384Mi; 128Mi until an eviction; 1 misplaced
[#######################################-------------------|                   ]
  evicted kube-system/old?[2J at 2026-11-20 11:00:00
      USES  REQUESTS     PRIORITY  POD
     200Mi      64Mi            0  kube-system/logs
      20Mi         0   2000001000  kube-system/proxy (not evicted: node-critical)
q quit   left, right minute   PgUp, PgDn hour   End now   up, down pods`
	if got := plainFrame(live(pressed()), 100, 24, 0); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestFrameFits: a frame fits on a terminal of any size, also on one of 20 columns or none.
func TestFrameFits(t *testing.T) {
	t.Parallel()
	v := live(pressed())
	for width := range 101 {
		for height := range 15 {
			for _, scroll := range []int{-1, 0, 3, 1000} {
				all := frame(v, width, height, scroll, keys)
				if len(all) > height {
					t.Fatalf("%d x %d: %d lines", width, height, len(all))
				}
				for _, line := range all {
					if ansi.StringWidth(line) > width {
						t.Fatalf("%d x %d: %q", width, height, line)
					}
				}
			}
		}
	}
	if got := plainFrame(v, 100, 6, 1000); !strings.Contains(got, "proxy") || strings.Contains(got, "kube-system/old") || !strings.Contains(got, "q quit") {
		t.Errorf("the end of the list does not show the last pod:\n%s", got)
	}
}

// TestScenes: what is missing or wrong is said.
func TestScenes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*status.Status)
		want   string
	}{
		"crossed": {func(s *status.Status) { s.Partitions[0].Eviction.Crossed = evict.Hard }, "; hard threshold crossed"},
		"dry-run": {func(s *status.Status) { s.Partitions[0].Eviction.Mode = "dry-run" }, "128Mi until an eviction, eviction dry-run"},
		"crossed, and dry-run": {func(s *status.Status) {
			s.Partitions[0].Eviction.Crossed, s.Partitions[0].Eviction.Mode = evict.Hard, "dry-run"
		}, "; hard threshold crossed, eviction dry-run"},
		"soft":          {func(s *status.Status) { s.Partitions[0].Eviction.SoftBytes = 192 * mebi }, "64Mi until an eviction"},
		"no limit":      {func(s *status.Status) { s.Partitions[0].LimitBytes = nil }, "system  used 256Mi, at most 384Mi; no limit"},
		"no threshold":  {func(s *status.Status) { s.Partitions[0].Eviction.HardBytes = 0 }, "256Mi until the limit"},
		"too much":      {func(s *status.Status) { s.Partitions[0].UsedBytes = 500 * mebi }, "116Mi too much"},
		"unread":        {func(s *status.Status) { s.Partitions[0].Eviction = nil }, "the memory is not known"},
		"no runtime":    {func(s *status.Status) { s.PodsUnknown = "no socket" }, "no pods shown: no socket"},
		"no service":    {func(s *status.Status) { s.Service = "not running" }, "service not running"},
		"no partition":  {func(s *status.Status) { s.Partitions = nil }, "No partition is active."},
		"a problem":     {func(s *status.Status) { s.Problem = "memoryLimit: want a quantity" }, "memoryLimit: want a quantity"},
		"being evicted": {func(s *status.Status) { s.Partitions[0].Eviction.Open = s.Partitions[0].Eviction.Last }, "evicting kube-system/old"},
		"nothing done":  {func(s *status.Status) { s.Partitions[0].Eviction.Last[0].DryRun = true }, "would have evicted kube-system/old"},
	} {
		s := pressed()
		test.change(&s)
		if got := plainFrame(live(s), 120, 24, 0); !strings.Contains(got, test.want) {
			t.Errorf("%s: want %q in\n%s", name, test.want, got)
		}
	}
}

// recorded returns a history of an hour, in which the usage grows by 1 MiB a minute. Another
// partition was there in the second half.
func recorded() samples.History {
	h := samples.History{Partitions: []unitname.PartitionName{unitname.System, "telemetry"}}
	for i := range 60 {
		at := noon.Add(time.Duration(i-60) * time.Minute)
		used := uint64(100+i) * mebi
		s := samples.Sample{Time: at, Seconds: 60, Partition: &samples.Usage{UsedPeakBytes: used, LimitBytes: 512 * mebi, HardBytes: 128 * mebi}}
		if i == 30 {
			s.Partition.Evicted = []string{"kube-system/logs"}
		}
		if i >= 30 {
			s.Others = []samples.Other{{Name: "telemetry", Usage: samples.Usage{UsedPeakBytes: mebi}}}
		}
		h.Minutes = append(h.Minutes, s)
	}
	tens := h.Minutes[29]
	tens.Seconds = 600
	tens.Partition = &samples.Usage{PeakTime: tens.Time}
	tens.Members = []samples.Member{{Namespace: "kube-system", Name: "small", WorkingSetBytes: mebi}, {Namespace: "kube-system", Name: "large", WorkingSetBytes: 90 * mebi}}
	h.Tens = append(h.Tens, tens)
	return h
}

// source is a Source of pressed and recorded.
func source(history error) Source {
	return Source{
		Interval: time.Hour,
		Status:   func(context.Context) (status.Status, error) { return pressed(), nil },
		History:  func(context.Context) (samples.History, error) { return recorded(), history },
	}
}

// screenOf returns a screen that has read the status.
func screenOf(t *testing.T, s Source) *screen {
	t.Helper()
	m := &screen{ctx: t.Context(), source: s, width: 120, height: 40}
	m.Update(m.Init()())
	return m
}

// press presses a key, and does what follows from it.
func (m *screen) presses(name string) {
	if follows := m.press(name); follows != nil {
		m.Update(follows())
	}
}

func (m *screen) shows() string { return ansi.Strip(m.View().Content) }

// TestThroughHistory: the keys go back and forth, by samples, and stop at both ends.
func TestThroughHistory(t *testing.T) {
	t.Parallel()
	m := screenOf(t, source(nil))
	for _, step := range []struct {
		keys string
		want string
	}{
		{"", "node-partition top, 12:00:00\n"},
		{"right", "node-partition top, 12:00:00\n"},
		{"left", "2026-11-20 11:59:00, from the history"},
		{"left", "2026-11-20 11:58:00, from the history"},
		{"right right", "node-partition top, 12:00:00\n"},
		{"pgup", "2026-11-20 11:00:00, from the history"},
		{"left left", "2026-11-20 11:00:00, from the history"},
		{"right", "2026-11-20 11:01:00, from the history"},
		{"pgdown", "node-partition top, 12:00:00\n"},
		{"pgup end", "node-partition top, 12:00:00\n"},
	} {
		for _, key := range strings.Fields(step.keys) {
			m.presses(key)
		}
		if got := m.shows(); !strings.Contains(got, step.want) {
			t.Errorf("after %q: want %q in\n%s", step.keys, step.want, got)
		}
	}
}

// TestEarlyKeys: the history can be entered before the node was read, once for several keys, and
// left before it was read. A hint is replaced by the keys at the next one.
func TestEarlyKeys(t *testing.T) {
	t.Parallel()
	m := &screen{ctx: t.Context(), source: source(nil), width: 120, height: 40}
	first := m.press("left")
	if m.press("left") != nil {
		t.Error("the history is read twice at a time")
	}
	m.Update(first())
	if got := m.shows(); !strings.Contains(got, "2026-11-20 11:59:00, from the history") {
		t.Errorf("%s", got)
	}
	m = screenOf(t, source(errors.New("no history")))
	late := m.press("left")
	m.press("end")
	m.Update(late())
	if got := m.shows(); !strings.Contains(got, "node-partition top, 12:00:00\n") || strings.Contains(got, "no history") {
		t.Errorf("%s", got)
	}
	m.presses("left")
	m.press("up")
	if got := m.shows(); !strings.Contains(got, keys) {
		t.Errorf("%s", got)
	}
}

// TestScroll: the list stops at its end, so that the next key up moves it.
func TestScroll(t *testing.T) {
	t.Parallel()
	m := screenOf(t, source(nil))
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 6})
	for range 100 {
		m.press("down")
	}
	end := m.shows()
	m.press("up")
	if got := m.shows(); !strings.Contains(end, "kube-system/proxy") || strings.Contains(got, "kube-system/proxy") {
		t.Errorf("at the end:\n%s\nabove it:\n%s", end, got)
	}
}

// TestPast: a sample shows the usage of its time, events, the pods by their usage, and the
// partitions that there were.
func TestPast(t *testing.T) {
	t.Parallel()
	h := recorded()
	for name, test := range map[string]struct {
		at    time.Time
		want  []string
		never string
	}{
		"with pods": {
			noon.Add(-31 * time.Minute),
			[]string{"system  used 129Mi of 512Mi; 255Mi until an eviction, CPU 0m, memory pressure 0.0%", "kube-system/large\n", "small"}, "telemetry",
		},
		"an event":     {noon.Add(-30 * time.Minute), []string{"evicted kube-system/logs", "telemetry  used 1Mi; no limit", "pods of 11:29:00"}, "of 11:30"},
		"without":      {noon.Add(-time.Minute), []string{"no pods shown: the history has none of this time"}, "large"},
		"before":       {noon.Add(-2 * time.Hour), []string{"the node had no partition"}, "used"},
		"it was short": {noon.Add(-time.Minute), []string{"31Mi too much"}, ""},
	} {
		if name == "it was short" {
			h.Minutes[59].Partition.HardBytes = 384 * mebi
		}
		got := plainFrame(past(h, test.at), 120, 40, 0)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %q in\n%s", name, want, got)
			}
		}
		if test.never != "" && strings.Contains(got, test.never) {
			t.Errorf("%s: %q in\n%s", name, test.never, got)
		}
		if large, small := strings.Index(got, "large"), strings.Index(got, "small"); large > small {
			t.Errorf("%s: the smaller pod is first:\n%s", name, got)
		}
	}
}

// TestNoHistory: a key that needs the history says why there is none, and the present stays.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	m := screenOf(t, source(errors.New("no history in /var/lib: for one, mkdir it")))
	m.presses("left")
	if got := m.shows(); !strings.Contains(got, "\nno history in /var/lib: for one, mkdir it") || !strings.Contains(got, "used 256Mi") {
		t.Errorf("%s", got)
	}
	empty := source(nil)
	empty.History = func(context.Context) (samples.History, error) { return samples.History{}, nil }
	m = screenOf(t, empty)
	m.presses("pgup")
	if got := m.shows(); !strings.Contains(got, "\nthe history has no sample yet") {
		t.Errorf("%s", got)
	}
}

// TestReadingFails: the last state stays, with the reason.
func TestReadingFails(t *testing.T) {
	t.Parallel()
	m := screenOf(t, source(nil))
	m.Update(statusRead{err: errors.New("open /run/x: permission denied")})
	if got := m.shows(); !strings.Contains(got, "\nopen /run/x: permission denied\n") || !strings.Contains(got, "used 256Mi") {
		t.Errorf("%s", got)
	}
	m.Update(statusRead{status: pressed()})
	if got := m.shows(); strings.Contains(got, "permission") {
		t.Errorf("%s", got)
	}
}

// TestScreen: on a terminal of 20 columns the program draws, follows the size, and ends by a key or
// with its context.
func TestScreen(t *testing.T) {
	t.Parallel()
	in, keyboard := io.Pipe()
	out := &waiting{seen: make(chan struct{}), want: "used 256Mi"}
	done := make(chan error, 1)
	go func() { done <- Screen(t.Context(), source(nil), in, out, tea.WithWindowSize(20, 8)) }()
	select {
	case <-out.seen:
	case err := <-done:
		t.Fatal(err)
	}
	if _, err := io.WriteString(keyboard, "q"); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Screen(ctx, source(nil), in, io.Discard, tea.WithWindowSize(20, 8)); err != nil {
		t.Errorf("a screen that was asked to end: %v", err)
	}
}

// waiting is a terminal that reports when it has shown a text.
type waiting struct {
	all  bytes.Buffer
	want string
	seen chan struct{}
	once bool
}

func (w *waiting) Write(p []byte) (int, error) {
	w.all.Write(p)
	if !w.once && strings.Contains(ansi.Strip(w.all.String()), w.want) {
		w.once = true
		close(w.seen)
	}
	return len(p), nil
}

// TestPlain: without a terminal there is a line for each fact. A reader that has enough ends it.
func TestPlain(t *testing.T) {
	t.Parallel()
	s := source(nil)
	s.Interval = time.Millisecond
	var out bytes.Buffer
	if err := Plain(t.Context(), s, &out, 2); err != nil {
		t.Fatal(err)
	}
	at := noon.UTC().Format(time.RFC3339)
	want := strings.Repeat(fmt.Sprintf(`%[1]s service ready
%[1]s partition system: used 256Mi of 512Mi; 128Mi until an eviction; next kube-system/logs, which uses 200Mi
%[1]s partition system: pods that are not where they belong: 1
%[1]s partition system: evicted kube-system/old?[2J at 2026-11-20 11:00:00
`, at), 2)
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Plain(t.Context(), s, writer, 0); err != nil {
		t.Errorf("a closed pipe: %v", err)
	}
	if err := Plain(t.Context(), s, failing{}, 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	out.Reset()
	s.Status = func(context.Context) (status.Status, error) {
		unknown := pressed()
		unknown.PodsUnknown, unknown.Partitions[0].Eviction.Order = "no socket", nil
		return unknown, nil
	}
	if err := Plain(t.Context(), s, &out, 1); err != nil || !strings.Contains(out.String(), "; pods not known: no socket\n") {
		t.Errorf("%v:\n%s", err, &out)
	}
	s.Status = func(context.Context) (status.Status, error) { return status.Status{}, errors.New("cannot be read") }
	if err := Plain(t.Context(), s, &out, 0); err == nil {
		t.Error("no error of a status that cannot be read")
	}
}

// failing is a full disk.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
