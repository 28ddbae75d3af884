package evict

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroupfs"
	"node-partition.io/node-partition/internal/unitname"
)

// benchRoot is the environment variable with a mounted cgroup v2 hierarchy, for BenchmarkPoll on a
// node. BenchmarkScrape of internal/daemon/metrics has the same.
const benchRoot = "SCRAPE_ROOT"

// BenchmarkPoll polls a partition far from its threshold, one near it, for which memory.stat is
// read too, and one that waits for a pod to end.
func BenchmarkPoll(b *testing.B) {
	open := []Eviction{{PodMeta: PodMeta{UID: "x"}, Containers: []Container{{Cgroup: partition}}}}
	for _, test := range []struct {
		name string
		hard uint64
		open []Eviction
	}{{"far", 20 * mi, nil}, {"near", 45 * mi, nil}, {"waiting", 20 * mi, open}} {
		b.Run(test.name, func(b *testing.B) {
			n := busyNode(b, newDisk(b))
			defer n.cancel()
			n.files(partition, map[string]string{"cgroup.events": "populated 1\n"})
			c := hardOnly
			c.Hard = test.hard
			if root := os.Getenv(benchRoot); root != "" {
				n.disk = &disk{root: root}
				c.Limit, c.Hard = cgroupfs.Unlimited, 0
				if test.name == "near" {
					c.Limit = 1 // this is never far, and without a threshold no pod is evicted
				}
			}
			m := n.manager(c)
			m.Store = Store(b.TempDir() + "/evictions.json")
			m.executor.load(m.present().Cooldown)
			defer m.watch.close()
			for i := range test.open {
				e := test.open[i]
				e.Grace = 24 * time.Hour
				m.executor.state.Open = append(m.executor.state.Open, newExecution(e).signalled(time.Now()))
			}
			m.executor.resumed = true
			m.step(b.Context())
			if m.watch.meter == nil {
				b.Fatal("there is no partition")
			}
			m.watch.reported = false
			b.ReportAllocs()
			for b.Loop() {
				m.step(b.Context())
			}
			if did := n.all(); len(did) != 0 {
				b.Errorf("did %q", did)
			}
		})
	}
}

// BenchmarkDecide selects one of 100 pods: with usage already read, and with reading it.
func BenchmarkDecide(b *testing.B) {
	n := newNode(b, newDisk(b))
	defer n.cancel()
	for i := range 100 {
		n.start(sized(fmt.Sprint("p", i), int32(i%7), 0, i%11), 1+i%13)
	}
	listed := n.list()
	m := n.started(hardOnly)
	m.Pods = func() []Pod { return listed }
	s := snapshotOf(50, m.measured()...)
	b.Run("pure", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if Decide(s).Victim == nil {
				b.Fatal("no victim")
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Pods = m.measured()
			if d := m.choose(&s); d.Victim == nil || len(d.Victim.Containers) != 1 {
				b.Fatal("no victim")
			}
		}
	})
}

// watching returns a function that runs a manager beside one lookout for all, until the benchmark
// has ended.
func watching(b *testing.B) (begin func(*Manager)) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var managers sync.WaitGroup
	b.Cleanup(func() {
		cancel()
		managers.Wait()
	})
	lookout := &Lookout{}
	managers.Go(func() { _ = lookout.Run(ctx) }) // it ends with its context
	return func(m *Manager) {
		m.Lookout = lookout
		managers.Go(func() { _ = m.Run(ctx) }) // it ends with its context
	}
}

// reportCPU reports the CPU time that this process takes of a second, over some time.
func reportCPU(b *testing.B, long time.Duration) {
	b.Helper()
	for b.Loop() {
		before, begin := cpuTime(b), time.Now()
		<-time.After(long)
		b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/time.Since(begin).Seconds(), "cpu-µs/s")
	}
}

// BenchmarkFar watches one partition and four, all far from their thresholds, for some seconds each
// (-benchtime 1x), and reports the CPU time that this takes of a second.
func BenchmarkFar(b *testing.B) {
	const long, limit = 10 * time.Second, 4000 * mi
	for _, count := range []int{1, 4} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			begin := watching(b)
			for i := range count {
				n := newNodeOf(b, newDisk(b), unitname.PartitionName(fmt.Sprint("far-", i)))
				defer n.cancel()
				n.files(n.slice, map[string]string{"memory.max": number(limit)})
				c := hardOnly
				c.Limit = limit
				begin(n.manager(c))
				<-time.After(53 * time.Millisecond) // each begins at another moment
			}
			reportCPU(b, long)
		})
	}
}

// BenchmarkStates watches a partition in which nothing is to be done for some seconds (-benchtime
// 1x), and reports the CPU time that this takes of a second. The difference of two counts of system
// calls, of runs that differ in -benchtime, has no call of the preparations.
func BenchmarkStates(b *testing.B) {
	const long = 4 * time.Second
	for _, pods := range []int{100, 500} {
		for _, state := range []struct {
			name string
			free int // MiB, of which 20 are the threshold
		}{{"quiet", 3500}, {"near", 30}, {"dry-run", 10}, {"candidateless", 10}} {
			b.Run(fmt.Sprint(state.name, "-", pods), func(b *testing.B) {
				begin := watching(b)
				n := newNode(b, newDisk(b))
				defer n.cancel()
				for i := range pods {
					p := sized(fmt.Sprint("p", i), int32(i%7), 0, 1)
					p.Static = state.name == "candidateless"
					n.start(p, 1)
				}
				listed, limit := n.list(), uint64(pods+state.free)*mi
				n.files(n.slice, map[string]string{"memory.max": number(limit)})
				c := hardOnly
				c.Limit, c.Hard, c.Protected, c.DryRun = limit, 20*mi, DefaultProtected, state.name == "dry-run"
				m := n.manager(c)
				m.Pods = func() []Pod { return listed }
				begin(m)
				<-time.After(2 * time.Second) // the first reading of each pod is over
				reportCPU(b, long)
				if did := n.all(); len(did) > 0 {
					b.Errorf("did %q", did)
				}
			})
		}
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
