package cluster

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/tests/testkit"
)

// monitors is the number of nodes here, and scale times that are the nodes of the table in
// docs/fleet-figures.md, with --node-status.
const monitors, scale = 500, 10

// fleet counts the writes of many nodes by the second.
type fleet struct {
	mu    sync.Mutex
	begin time.Time
	per   []int
	nodes []*aNode
}

func (f *fleet) count() {
	f.mu.Lock()
	defer f.mu.Unlock()
	second := int(time.Since(f.begin) / time.Second)
	for len(f.per) <= second {
		f.per = append(f.per, 0)
	}
	f.per[second]++
}

// during returns the writes in each second of a time, from now on.
func (f *fleet) during(d time.Duration) []int {
	f.mu.Lock()
	f.begin, f.per = time.Now(), make([]int, int(d/time.Second))
	f.mu.Unlock()
	<-time.After(d)
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.per[:int(d/time.Second)]
}

func (f *fleet) answer(err error) {
	for _, n := range f.nodes {
		n.change(func(n *aNode) { n.err = err })
	}
}

// writesPerSecond returns the mean of the writes in a second, and the mean of the ten busiest
// seconds in a row, for all nodes of the table.
func writesPerSecond(per []int) (mean, busiest float64) {
	const window = 10
	sum, last := 0, 0
	for i, n := range per {
		sum += n
		last += n
		if i >= window {
			last -= per[i-window]
		}
		busiest = max(busiest, float64(last*scale)/window)
	}
	return float64(sum*scale) / float64(len(per)), busiest
}

// TestFleet: the API server of 5,000 nodes is away for ten minutes. Their writes are spread before
// that, and again within ten minutes after it.
func TestFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, lines := &fleet{begin: time.Now()}, &testkit.Buffer{}
		dir := t.TempDir()
		for range monitors { // they are booted at once, as after a power failure
			n := &aNode{facts: fine(), at: f.count}
			f.nodes = append(f.nodes, n)
			k := n.keeper(dir, "0.1.0", lines)
			k.look = 5 * look // there are many
			defer run(t, k.Run)()
		}
		f.during(5 * time.Minute)
		check := func(what string, d time.Duration, wantMean, wantBusiest float64) {
			t.Helper()
			mean, busiest := writesPerSecond(f.during(d))
			t.Logf("%s: %.0f a second, in the ten busiest seconds %.0f", what, mean, busiest)
			if mean > wantMean || busiest > wantBusiest {
				t.Errorf("%s: %.0f a second, %.0f in the ten busiest; want at most %.0f, %.0f", what, mean, busiest, wantMean, wantBusiest)
			}
		}
		check("steady", 5*time.Minute, 20, 50)
		f.answer(unreachable())
		check("away", 10*time.Minute, 120, 200)
		f.answer(nil)
		check("the ten minutes after that", 10*time.Minute, 25, 130)
		check("and then", 5*time.Minute, 20, 40)
	})
}
