package evict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestManagerRamps: pods that grow in random ways cost no pod that does not grow, while they do and
// afterwards. The kernel kills beside the program, and counts an oom at every allocation at the
// limit.
func TestManagerRamps(t *testing.T) {
	d := newDisk(t)
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRamps(t, d, seed)
				m := r.started(r.config)
				defer r.stop(m)
				r.run(m, time.Second)
				for i := range r.growers {
					r.grow(i, 0)
				}
				r.run(m, 8*time.Second)
				r.mu.Lock()
				r.over = true
				r.mu.Unlock()
				for i := range r.growers {
					r.set(func() { r.drop(fmt.Sprint("grower", i)) })
				}
				r.run(m, 3*time.Second)
				r.wait(m, reclaimTimeout)
				r.check("innocent")
				if used := r.sum(); used > 700*mi {
					t.Fatalf("%d MiB are used at the end", used/mi)
				}
				r.wait(m, 2*time.Minute)
				r.check("")
			})
		})
	}
}

// wait is run for a long time in which little happens. The program looks once in a while only,
// which costs a tenth.
func (r *ramps) wait(m *Manager, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		r.run(m, 500*time.Millisecond)
		<-time.After(4500 * time.Millisecond)
	}
}

// ramps is a node with pods that grow.
type ramps struct {
	*node
	random  *rand.Rand
	config  Settings
	growers int
	over    bool
	story   []string
	// growing is held while a pod starts: two of DaemonSets may come back at the same moment.
	growing sync.Mutex
}

func newRamps(t *testing.T, d *disk, seed uint64) *ramps {
	t.Helper()
	for _, path := range []string{systemCgroup, "evictions.json"} {
		if err := d.remove(path); err != nil {
			t.Fatal(err)
		}
	}
	r := &ramps{node: newNode(t, d), random: rand.New(rand.NewPCG(seed, 0)), config: hardOnly}
	r.growers = 1 + r.random.IntN(2)
	r.kernel.spares = 3 * r.random.IntN(2)
	r.noAPI = r.random.IntN(4) == 0
	r.ends = pick(r, time.Millisecond, 100*time.Millisecond, 2*time.Second)
	r.restarts = pick(r, 0, 500*time.Millisecond, 5*time.Second)
	if r.random.IntN(3) == 0 {
		r.config.Soft, r.config.SoftGrace, r.config.MaxPodGrace = 150*mi, time.Second, 2*time.Second
	}
	if r.random.IntN(3) == 0 {
		r.config.MinimumReclaim = 40 * mi
	}
	r.restarted = pick[uint64](r, 0, 1, 5) * mi
	r.tell("API %t, pods end in %s and restart after %s with %d MiB, %+v", !r.noAPI, r.ends, r.restarts, r.restarted/mi, r.config)
	for i := range 4 {
		r.start(sized(fmt.Sprint("innocent", i), pick[int32](r, 0, 1000), 0, 200), 130)
		r.pods[i].scoreAdj = int64(r.random.IntN(1000))
	}
	return r
}

func pick[T any](r *ramps, from ...T) T { return from[r.random.IntN(len(from))] }

func (r *ramps) tell(format string, args ...any) {
	r.story = append(r.story, fmt.Sprintf(format, args...))
}

// check fails if a pod with such a name was stopped.
func (r *ramps) check(name string) {
	r.t.Helper()
	did := r.all()
	if slices.ContainsFunc(did, func(what string) bool { return !strings.HasPrefix(what, "confirm") && strings.Contains(what, name) }) {
		r.t.Fatalf("did %q\n%s\nevents: %q", did, strings.Join(r.story, "\n"), r.takeEvents())
	}
}

// drop ends and removes a pod, as one that is deleted by force.
func (r *ramps) drop(name string) {
	for _, p := range slices.Clone(r.pods) {
		if strings.HasPrefix(p.Name, name) {
			r.end(p, 0)
		}
	}
}

// grow starts a pod and lets it grow. In a DaemonSet it comes back.
func (r *ramps) grow(i, times int) {
	r.growing.Lock()
	defer r.growing.Unlock()
	name := fmt.Sprint("grower", i, ".", times)
	p := sized(name, pick[int32](r, -10, 0, 2000), 0, 20)
	p.UID = strings.ReplaceAll(name, ".", "-")
	p.Owner = fmt.Sprint("kube-system/grower", i)
	kind := pick(r, "memory", "memory", "memory", "tmpfs", "page cache", "slabs")
	step, every := uint64(10*mi), pick(r, 150*time.Millisecond, 20*time.Millisecond, time.Millisecond)
	daemonSet, untilDead := r.random.IntN(3) == 0, r.random.IntN(2) == 0
	p.EndsForGood = r.random.IntN(4) == 0
	p.Terminating = r.random.IntN(5) == 0
	begin := pick(r, 0, 1, 100)
	if r.random.IntN(3) == 0 { // its first seconds are unknown
		r.listed = r.list()
		r.reconcileTakes = pick(r, 100*time.Millisecond, 2*time.Second)
	}
	r.tell("%s: %s by %d MiB in %s, DaemonSet %t, until dead %t, Job %t, being deleted %t, from %d MiB, unknown %t",
		name, kind, step/mi, every, daemonSet, untilDead, p.EndsForGood, p.Terminating, begin, r.listed != nil)
	r.start(p, begin)
	pod := r.pods[len(r.pods)-1]
	pod.scoreAdj = int64(r.random.IntN(1000))
	what := map[string]*uint64{"memory": &pod.containers[0].uses, "tmpfs": &pod.rest, "page cache": &pod.cache[1], "slabs": &pod.cache[2]}[kind]
	var tick func()
	tick = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		c, next := pod.containers[0], every
		switch {
		case r.over || r.ctx.Err() != nil:
			return
		case !slices.Contains(r.pods, pod):
			if daemonSet && times < 5 {
				time.AfterFunc(200*time.Millisecond, func() { r.grow(i, times+1) })
			}
			return
		case !c.running:
			next = 100 * time.Millisecond
		case !c.dying || untilDead:
			ooms := r.kernel.ooms
			r.allocate(what, step)
			if r.kernel.ooms > ooms {
				next = max(every, 20*time.Millisecond) // it sleeps, as in out_of_memory
			}
		}
		time.AfterFunc(next, tick)
	}
	time.AfterFunc(every, tick)
}
