package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// uid is the UID of a pod.
const uid = "11111111-2222-3333-4444-555555555555"

const mebi = 1 << 20

// anEviction returns an eviction of kube-system/dns, with numbers.
func anEviction() evict.Eviction {
	return evict.Eviction{
		PodMeta: evict.PodMeta{
			UID: uid, Namespace: "kube-system", Name: "dns", QoS: v1.PodQOSBurstable,
			Owner: "rs", Priority: 7,
		},
		Verdict: evict.Verdict{Time: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), Threshold: evict.Hard, Method: evict.Evict},
		Amounts: evict.Amounts{AvailableBytes: 20 * mebi, AtBytes: 32 * mebi, LimitBytes: 512 * mebi, WorkingSetBytes: 130 * mebi, RequestBytes: 70 * mebi},
	}
}

// TestEvictionJournalCatalog: the catalog explains each MESSAGE_ID.
func TestEvictionJournalCatalog(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../units/node-partition.catalog")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{idEvicting, idEvicted, idFailed, idNoCandidate, idKernelKilled}
	for _, id := range ids {
		if strings.Count(string(text), "\n-- "+id+"\n") != 1 {
			t.Errorf("%s is not explained, or twice", id)
		}
	}
	if entries := strings.Count(string(text), "\n-- "); entries != len(ids) {
		t.Errorf("%d entries, want %d", entries, len(ids))
	}
}

// TestEvictionEvents: each event is counted once and logged once.
func TestEvictionEvents(t *testing.T) {
	t.Parallel()
	dry := anEviction()
	dry.DryRun = true
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		happen func(evict.Events)
		counts map[string]float64
		lines  int
	}{
		"evicting":      {func(v evict.Events) { v.Evicting(anEviction(), time.Millisecond) }, map[string]float64{"eviction_reaction_seconds": 1}, 1},
		"a restart too": {func(v evict.Events) { v.Evicting(anEviction(), 0) }, nil, 1},
		"dry run":       {func(v evict.Events) { v.Evicting(dry, 0) }, map[string]float64{"evictions_total": 1}, 1},
		"resumed":       {func(v evict.Events) { v.Resumed(anEviction()) }, nil, 1},
		"evicted":       {func(v evict.Events) { v.Evicted(anEviction(), time.Second) }, map[string]float64{"evictions_total": 1}, 1},
		"a step":        {func(v evict.Events) { v.Failed(anEviction(), evict.StepAPI, failed) }, map[string]float64{"eviction_failures_total": 1}, 1},
		"a poll":        {func(v evict.Events) { v.Failed(evict.Eviction{}, evict.StepPoll, failed) }, map[string]float64{"eviction_failures_total": 1}, 0},
		"no candidate":  {func(v evict.Events) { v.NoCandidate(evict.Decision{}) }, map[string]float64{"eviction_no_candidates_total": 1}, 1},
		"killed":        {func(v evict.Events) { v.KernelKilled(evict.AtPod, 2) }, map[string]float64{"kernel_kills_total": 2}, 1},
		"warning":       {func(v evict.Events) { v.Warn(failed) }, nil, 1},
	} {
		counters, log := metrics.New(metrics.Options{}), &bytes.Buffer{}
		journal := newEvictionJournal(slog.New(slog.NewTextHandler(log, nil)), partition.System)
		test.happen(evictionEvents{evictionJournal: journal, metrics: counters.Evictions(partition.System)})
		if got := strings.Count(log.String(), "\n"); got != test.lines {
			t.Errorf("%s: %d lines, want %d: %s", name, got, test.lines, log)
		}
		families, err := counters.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]float64{}
		for _, family := range families {
			short := strings.TrimPrefix(family.GetName(), "nodepartition_")
			if !strings.HasPrefix(short, "eviction") && !strings.HasPrefix(short, "kernel_kills") {
				continue
			}
			for _, metric := range family.GetMetric() {
				if count := metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount()); count > 0 {
					counts[short] += count
				}
			}
		}
		if len(counts)+len(test.counts) > 0 && !maps.Equal(counts, test.counts) {
			t.Errorf("%s: counted %v, want %v", name, counts, test.counts)
		}
	}
}

// An operator searches the journal by the MESSAGE_ID, and reads the text with its attributes.
func TestEvictionJournalRecords(t *testing.T) {
	t.Parallel()
	var kept bytes.Buffer
	journal := newEvictionJournal(slog.New(slog.NewTextHandler(&kept, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), partition.System)
	e := anEviction()
	journal.Evicting(e)
	journal.Evicted(e, 1500*time.Millisecond+1)
	journal.NoCandidate(evict.Decision{
		Available: mebi, At: 2 * mebi, Order: []evict.Candidate{{Pod: evict.Pod{PodMeta: evict.PodMeta{Namespace: "kube-system", Name: "etcd"}}, Skip: evict.SkipStatic}},
	})
	journal.NoCandidate(evict.Decision{
		Available: mebi, At: 2 * mebi, Order: []evict.Candidate{{Pod: evict.Pod{PodMeta: evict.PodMeta{Namespace: "kube-system", Name: "dns"}}, Skip: evict.SkipWithinRequest}},
	})
	journal.NoCandidate(evict.Decision{
		Available: mebi, At: 2 * mebi, Held: evict.HoldUnreclaimable, Ownerless: 700 * mebi,
		Order: []evict.Candidate{{Pod: evict.Pod{PodMeta: evict.PodMeta{Namespace: "kube-system", Name: "dns"}}, Skip: evict.SkipWithinRequest}},
	})
	const pod = " namespace=kube-system pod=dns uid=" + uid + " method=evict "
	want := []string{
		`level=WARN msg="evicting a pod, because the memory of the system partition is low" MESSAGE_ID=` + idEvicting + pod +
			"threshold=hard available=20Mi below=32Mi limit=512Mi used=0 working-set=130Mi request=70Mi estimated=false priority=7 grace=0s",
		`level=INFO msg="an eviction has ended" MESSAGE_ID=` + idEvicted + pod + "took=1.5s",
		`level=ERROR msg="the memory of the system partition is low and all its pods are protected: the kernel will kill at the limit; raise memoryLimit, ` +
			`or protect fewer with --eviction-protect" MESSAGE_ID=` + idNoCandidate + ` available=1Mi below=2Mi of-no-pod=0 pods="kube-system/etcd (static)"`,
		`level=ERROR msg="the memory of the system partition is low because a protected pod uses more than it requests, and no pod within its request ` +
			`is evicted for it: the kernel will kill at the limit; limit that pod, or protect fewer with --eviction-protect" MESSAGE_ID=` +
			idNoCandidate + ` available=1Mi below=2Mi of-no-pod=0 pods="kube-system/dns (within-request)"`,
		`level=ERROR msg="the memory of the system partition is low because of memory that belongs to no pod that runs in it, and no pod within its request is ` +
			`evicted for it: delete the files that ended pods have left on a tmpfs of the node (/dev/shm, /run), or the pods that were moved out" MESSAGE_ID=` +
			idNoCandidate + ` available=1Mi below=2Mi of-no-pod=700Mi pods="kube-system/dns (within-request)"`,
	}
	if got := strings.Split(strings.TrimSpace(kept.String()), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n%s; want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestEvictionJournal: the messages name the action, and what failed.
func TestEvictionJournal(t *testing.T) {
	t.Parallel()
	restart, dry, soft, failed := anEviction(), anEviction(), anEviction(), anEviction()
	restart.Method = evict.Restart
	dry.DryRun = true
	soft.Threshold, soft.Grace, soft.Estimated = evict.Soft, 20*time.Second, true
	failed.Method, failed.Problem = evict.Restart, "not tried again: not allowed"
	away := errors.New("the API server cannot be reached")
	for name, test := range map[string]struct {
		say  func(evictionJournal)
		want []string
	}{
		"restart":            {func(j evictionJournal) { j.Evicting(restart) }, []string{"level=WARN", "stopping the containers of a pod, which the kubelet starts again", idEvicting}},
		"dry run":            {func(j evictionJournal) { j.Evicting(dry) }, []string{"dry run: would evict a pod", idEvicting}},
		"soft":               {func(j evictionJournal) { j.Evicting(soft) }, []string{"threshold=soft", "grace=20s", "estimated=true"}},
		"problem":            {func(j evictionJournal) { j.Evicted(failed, time.Second) }, []string{"level=WARN", `problem="not tried again: not allowed"`, idEvicted}},
		"resumed":            {func(j evictionJournal) { j.Resumed(anEviction()) }, []string{"level=WARN", "decided=2026-07-01T12:00:00Z", "pod=dns", idEvicting}},
		"failed":             {func(j evictionJournal) { j.Failed(failed, evict.StepAPI, away) }, []string{"level=ERROR", "step=api", "pod=dns", "cannot be reached", idFailed}},
		"failed without pod": {func(j evictionJournal) { j.Failed(evict.Eviction{}, evict.StepState, away) }, []string{"level=ERROR", "step=state", idFailed}},
		"killed":             {func(j evictionJournal) { j.KernelKilled(evict.AtPod, 2) }, []string{"level=ERROR", "limit of a pod, a container or the node", "processes=2", idKernelKilled}},
		"killed at our limit": {
			func(j evictionJournal) { j.KernelKilled(evict.AtPartition, 1) }, []string{"eviction came too late", "journalctl -k", idKernelKilled},
		},
		"warning": {func(j evictionJournal) { j.Warn(away) }, []string{"level=WARN", "cannot be reached"}},
	} {
		log := &bytes.Buffer{}
		test.say(newEvictionJournal(slog.New(slog.NewTextHandler(log, nil)), partition.System))
		for _, part := range test.want {
			if !strings.Contains(log.String(), part) || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("%s: %q; want one line with %q", name, log, part)
			}
		}
	}
}

// noted is a sink that notes what gets to it, and stands for metrics.
type noted struct{ calls []string }

func (n *noted) Signalled(time.Duration)             { n.calls = append(n.calls, "signalled") }
func (n *noted) Evicted(evict.Eviction)              { n.calls = append(n.calls, "evicted") }
func (n *noted) Failed(s evict.Step)                 { n.calls = append(n.calls, "failed "+string(s)) }
func (n *noted) NoCandidate()                        { n.calls = append(n.calls, "no candidate") }
func (n *noted) KernelKilled(evict.KilledAt, uint64) { n.calls = append(n.calls, "killed") }

// TestEvictionEventsRules: a dry run is counted at once. A failed poll is only counted.
func TestEvictionEventsRules(t *testing.T) {
	t.Parallel()
	dry := anEviction()
	dry.DryRun = true
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		happen  func(evict.Events)
		counted []string
		lines   int
	}{
		"signalled":    {func(v evict.Events) { v.Evicting(anEviction(), 1) }, []string{"signalled"}, 1},
		"escalated":    {func(v evict.Events) { v.Evicting(anEviction(), 0) }, nil, 1},
		"dry run":      {func(v evict.Events) { v.Evicting(dry, 0) }, []string{"evicted"}, 1},
		"resumed":      {func(v evict.Events) { v.Resumed(anEviction()) }, nil, 1},
		"evicted":      {func(v evict.Events) { v.Evicted(anEviction(), 1) }, []string{"evicted"}, 1},
		"poll failed":  {func(v evict.Events) { v.Failed(evict.Eviction{}, evict.StepPoll, failed) }, []string{"failed poll"}, 0},
		"step failed":  {func(v evict.Events) { v.Failed(anEviction(), evict.StepAPI, failed) }, []string{"failed api"}, 1},
		"no candidate": {func(v evict.Events) { v.NoCandidate(evict.Decision{}) }, []string{"no candidate"}, 1},
		"killed":       {func(v evict.Events) { v.KernelKilled(evict.AtPod, 1) }, []string{"killed"}, 1},
		"warning":      {func(v evict.Events) { v.Warn(failed) }, nil, 1},
	} {
		log, counts := &bytes.Buffer{}, &noted{}
		journal := newEvictionJournal(slog.New(slog.NewTextHandler(log, nil)), partition.System)
		test.happen(evictionEvents{evictionJournal: journal, metrics: counts})
		if !slices.Equal(counts.calls, test.counted) || strings.Count(log.String(), "\n") != test.lines {
			t.Errorf("%s: counted %q, want %q; logged %q, want %d lines", name, counts.calls, test.counted, log, test.lines)
		}
	}
}

// TestEvictionJournalPartition: lines about another partition name it, in the text and as an
// attribute. Those about the system partition have no attribute.
func TestEvictionJournalPartition(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(evictionJournal){
		"evicting":     func(j evictionJournal) { j.Evicting(anEviction()) },
		"no candidate": func(j evictionJournal) { j.NoCandidate(evict.Decision{}) },
		"stays":        func(j evictionJournal) { j.NoCandidate(evict.Decision{Held: evict.HoldUnreclaimable}) },
		"killed":       func(j evictionJournal) { j.KernelKilled(evict.AtPod, 1) },
		"killed there": func(j evictionJournal) { j.KernelKilled(evict.AtPartition, 1) },
	} {
		lines := map[partition.Name]string{}
		for _, partition := range []partition.Name{partition.System, "telemetry"} {
			log := &bytes.Buffer{}
			say(newEvictionJournal(slog.New(slog.NewTextHandler(log, nil)), partition))
			lines[partition] = log.String()
		}
		if line := lines[partition.System]; !strings.Contains(line, "the system partition") || strings.Contains(line, "partition=") {
			t.Errorf("%s: %s", name, line)
		}
		if line := lines["telemetry"]; !strings.Contains(line, "partition telemetry") || strings.Contains(line, "system partition") ||
			!strings.Contains(line, " partition=telemetry ") {
			t.Errorf("%s: %s", name, line)
		}
	}
	log := &bytes.Buffer{}
	newEvictionJournal(slog.New(slog.NewTextHandler(log, nil)), "telemetry").Warn(errors.New("slow"))
	if !strings.Contains(log.String(), "partition=telemetry") {
		t.Errorf("a warning is %s", log)
	}
}
