package promhistory

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"nodepartition/internal/samples"
)

// gathered is a node that is being read.
type gathered struct {
	hours           map[int64]*figures // by the start in seconds since 1970
	least, capacity uint64
}

// figures holds the answers to the queries for an hour.
type figures struct {
	minutes                       float64
	peak, low, all, set, allSet   uint64
	requests, hard, services      uint64
	evicted, killed, killedByPods bool
}

// add adds the answer to a query.
func (g *gathered) add(name string, values []model.SamplePair) {
	for _, v := range values {
		start := v.Timestamp.Time().Truncate(hour).Unix()
		f := g.hours[start]
		if f == nil {
			f = &figures{}
			g.hours[start] = f
		}
		g.set(f, name, float64(v.Value))
	}
}

func (g *gathered) set(f *figures, name string, value float64) {
	amount := whole(value)
	switch name {
	case "minutes":
		f.minutes += value // two shapes of one node follow each other
	case "peak":
		f.peak = max(f.peak, amount)
	case "low":
		if f.low == 0 || amount < f.low {
			f.low = amount
		}
	case "all":
		f.all = max(f.all, amount)
	case "set":
		f.set = max(f.set, amount)
	case "allset":
		f.allSet = max(f.allSet, amount)
	case "requests":
		f.requests = max(f.requests, amount)
	case "hard":
		f.hard = max(f.hard, amount)
	case "services":
		f.services = max(f.services, amount)
	case "evictions":
		f.evicted = true
	case "kills":
		f.killed = true
	case "podkills":
		f.killedByPods = true
	case "capacity":
		g.capacity = amount
	case "least":
		g.least = max(g.least, amount)
	}
}

// whole returns an amount of bytes. What is none counts as 0.
func whole(value float64) uint64 {
	const most = 1 << 60
	//guard: a value that is not a number of bytes is not known
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return 0
	}
	return uint64(min(value, most))
}

// node returns the node with its hours in order.
func (g *gathered) node(t target) Node {
	n := Node{Name: t.String(), Shape: t.shape, LeastThreshold: g.least, NodeBytes: g.capacity}
	for _, start := range slices.Sorted(maps.Keys(g.hours)) {
		n.Hours = append(n.Hours, g.hours[start].sample(time.Unix(start, 0).UTC()))
	}
	return n
}

// sample returns an hour as a sample of the history.
func (f *figures) sample(start time.Time) samples.Sample {
	s := samples.Sample{Time: start, Seconds: uint32(min(f.minutes, 60) * 60)}
	if f.services > 0 {
		s.Groups = []samples.Group{{Name: "services", WorkingSetBytes: f.services}}
	}
	if f.minutes == 0 || f.peak == 0 {
		return s
	}
	s.Partition = &samples.Usage{UsedPeakBytes: f.peak, UsedLowBytes: f.low, PeakTime: start, HardBytes: f.hard}
	if f.set > 0 {
		s.Partition.Cache = &samples.Cache{WorkingSetBytes: f.set}
	}
	if f.requests > 0 || f.all > 0 {
		s.Partition.Pods = &samples.Pods{RequestBytes: f.requests, AllUsedBytes: f.all, AllWorkingSetBytes: f.allSet}
	}
	if f.evicted {
		s.Partition.Evicted = []string{"a pod"}
	}
	if f.killed {
		s.Partition.KilledAtLimit = 1
	}
	if f.killedByPods {
		s.Partition.KilledElsewhere = 1
	}
	return s
}
