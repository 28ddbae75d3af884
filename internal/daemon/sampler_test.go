package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/pkg/evict"
)

// polled is an evictor whose partition uses more each minute.
type polled struct {
	used  uint64
	pods  []evict.Pod
	usage map[string]evict.Usage
}

func (p *polled) Peak(time.Duration) (uint64, bool) {
	p.used += 1 << 20
	return p.used, true
}

func (p *polled) Candidates() []evict.Pod { return p.pods }

func (p *polled) Usage() map[string]evict.Usage { return p.usage }

// cgroup makes the cgroup of a pod that uses so many bytes.
func cgroup(tb testing.TB, root, name string, bytes uint64) evict.Pod {
	tb.Helper()
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	for file, text := range map[string]string{
		"memory.current": fmt.Sprint(bytes), "memory.stat": fmt.Sprintf("anon %d\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\n", bytes),
		"cgroup.events": "populated 1\n", "memory.min": "0", "memory.max": "max",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return evict.Pod{PodMeta: evict.PodMeta{
		UID: name, Namespace: "kube-system", Name: name, Cgroup: name, Owner: "0d2f6c1e-of-" + name, // the controller's UID
	}}
}

// newTestSampler returns a sampler of the system partition, with a member inside and one outside.
func newTestSampler(tb testing.TB, of *polled) *sampler {
	tb.Helper()
	root := tb.TempDir()
	of.pods = []evict.Pod{cgroup(tb, root, "inside", 3<<20), cgroup(tb, root, "new", 20<<20)}
	of.usage = map[string]evict.Usage{"inside": {Used: 30 << 20}} // as it was measured
	outside := cgroup(tb, root, "outside", 7<<20)
	return &sampler{
		root: host.Root(tb.TempDir()), cgroups: cgroups.FS(root), files: map[partition.Name]sampled{},
		partitions: func() map[partition.Name]polls { return map[partition.Name]polls{partition.System: of} },
		placement: func(partition.Name) (node.MemberPlaces, bool) {
			return node.MemberPlaces{Members: 2, RequestBytes: 50 << 20, LeftBytes: 1 << 20, Waiting: []evict.Pod{outside}}, true
		},
		warn: func(err error) { tb.Error(err) },
	}
}

// TestSampler: a day of minutes is recorded, with members outside, and is on the disk each ten
// minutes and at the end. A partition that is removed keeps its file.
func TestSampler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := &polled{used: 100 << 20}
		s := newTestSampler(t, of)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = s.run(ctx) }() // it ends with its context
		<-time.After(9*time.Minute + time.Second)
		if _, _, err := sizefile.Read(s.root, partition.System); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before ten minutes: %v", err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		r, _, err := sizefile.Read(s.root, partition.System)
		// The tenth minute has used 110, with 7 and 1 outside.
		if err != nil || len(r.Minutes) != 10 || r.Minutes[9] != 118<<20 || r.Hours[0].Members != 2 || r.Hours[0].Largest != 30<<20 || r.RequestBytes != 50<<20 {
			t.Fatalf("%+v, %v", r, err)
		}
		if len(r.Members) != 3 || r.Members["kube-system/new"].Peak != 20<<20 || r.Members["kube-system/outside"].Peak != 7<<20 {
			t.Errorf("members %+v", r.Members)
		}
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if file := s.files[partition.System]; len(file.Minutes) != 24*60 || time.Since(file.To) > time.Minute {
			t.Errorf("%d minutes until %s", len(file.Minutes), file.To)
		}
		if a := s.advice(partition.System); a.Length() != 24*time.Hour+10*time.Minute || a.LimitBytes == 0 {
			t.Errorf("%+v", a)
		}
		cancel()
		synctest.Wait()
		if r, _, err := sizefile.Read(s.root, partition.System); err != nil || time.Since(r.To) > 2*time.Minute {
			t.Errorf("at the end: until %s, %v", r.To, err)
		}

		// A removed partition is written and forgotten, and goes on when it comes back.
		s.sample(time.Now().Add(time.Minute), time.Minute)
		s.partitions = func() map[partition.Name]polls { return nil }
		s.sample(time.Now().Add(2*time.Minute), time.Minute)
		if _, kept := s.files[partition.System]; kept || s.advice(partition.System).LimitBytes != 0 {
			t.Error("a removed partition is remembered")
		}
		if _, _, err := sizefile.Read(s.root, partition.System); err != nil {
			t.Error(err)
		}
	})
}

// TestSamplerUnknown: before the first reconcile nothing is known of the members, and nothing is
// recorded.
func TestSamplerUnknown(t *testing.T) {
	t.Parallel()
	of := &polled{}
	s := newTestSampler(t, of)
	s.placement = func(partition.Name) (node.MemberPlaces, bool) { return node.MemberPlaces{}, false }
	s.sample(time.Now(), time.Minute)
	if file := s.files[partition.System]; len(file.Minutes) != 1 || file.Minutes[0] != 0 || file.Day() != nil {
		t.Errorf("%v", file.Minutes)
	}
	if placed, known := (&monitor{}).placement(partition.System); known {
		t.Errorf("%+v", placed)
	}
}

// BenchmarkSample measures a minute of a partition with 40 members: by the clock, and the CPU time
// of the process, which other programs of the machine hardly change.
func BenchmarkSample(b *testing.B) {
	of := &polled{}
	s := newTestSampler(b, of)
	for i := range 39 {
		pod := cgroup(b, string(s.cgroups), fmt.Sprint("pod-", i), 30<<20)
		of.pods, of.usage[pod.UID] = append(of.pods, pod), evict.Usage{Used: 30 << 20}
	}
	cpuTime := func() int64 {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return usage.Utime.Nano() + usage.Stime.Nano()
	}
	at, begun := time.Now(), cpuTime()
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(time.Minute)
		s.sample(at, time.Minute)
	}
	b.ReportMetric(float64(cpuTime()-begun)/float64(b.N), "cpu-ns/op")
}
