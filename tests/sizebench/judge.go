package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"node-partition.io/node-partition/internal/sizing"
)

// partition is one draw: containers at random, and their sum by the minute from when all of them
// have started.
type partition struct {
	members []series
	sum     series
}

// draw returns a partition of so many containers, none of them twice. The containers of a trace
// keep their common clock: what happens to many at once has to happen to the sum.
func draw(random *rand.Rand, trace []series, members int) partition {
	p := partition{}
	start := 0
	for _, i := range random.Perm(len(trace))[:members] {
		first := slices.IndexFunc(trace[i], func(v float64) bool { return !math.IsNaN(v) })
		start = max(start, first)
		p.members = append(p.members, trace[i])
	}
	p.sum = make(series, len(trace[0])-start)
	for i, m := range p.members {
		p.members[i] = m[start:]
		for minute, v := range p.members[i] {
			p.sum[minute] += v
		}
	}
	return p
}

// before returns the first minutes of a partition, and after the rest.
func (p partition) before(minutes int) partition {
	cut := partition{sum: p.sum[:minutes]}
	for _, m := range p.members {
		cut.members = append(cut.members, m[:minutes])
	}
	return cut
}

// cell is what is judged at once: all contenders on the same draws.
type cell struct {
	members, train int
	// draws has a row for each partition, and in it a verdict for each contender.
	draws [][]verdict
}

// verdict is how a contender's limit would have done in the rest of a draw.
type verdict struct {
	limit float64
	// mean and peak are those of the rest.
	mean, peak float64
	evictions  int
	// lent is the number of evictions where the node can lend a quarter of the limit (memoryBurst).
	lent int
}

// burst is the part of a limit that a node lends.
const burst = 0.25

// leastRest is the shortest rest that is judged, in minutes.
const leastRest = 60

// judge draws partitions and has each contender size them. They are judged for as long again as
// they have learned, and for a day at least: that is what is known of them to hold. A trace of a
// day is judged to its end.
func judge(trace []series, contenders []contender, members, train, draws int, seed uint64) cell {
	c := cell{members: members, train: train}
	random := rand.New(rand.NewPCG(seed, uint64(members))) // the same draws for each training
	for range draws {
		p := draw(random, trace, members)
		if len(p.sum) < train+leastRest {
			continue
		}
		p = p.before(min(len(p.sum), max(2*train, 24*60)))
		known, rest := p.before(train), p.sum[train:]
		mean, peak := 0.0, 0.0
		for _, v := range rest {
			mean += v / float64(len(rest))
			peak = max(peak, v)
		}
		if peak == 0 || slices.Max(known.sum) == 0 {
			continue // there is nothing to size
		}
		row := make([]verdict, len(contenders))
		for i, by := range contenders {
			v := verdict{limit: by.size(known, rest), mean: mean, peak: peak}
			if v.peak > v.limit {
				v.evictions = p.evictions(train, v.limit)
				v.lent = p.evictions(train, (1+burst)*v.limit)
			}
			row[i] = v
		}
		c.draws = append(c.draws, row)
	}
	return c
}

// evictions counts the pods that the present rules would evict in the rest: while the sum exceeds
// the limit, the member goes that exceeds its request by most. A request is not in a trace: it is
// the median of the member's use in the training. Who was evicted comes back as small as it was at
// its smallest, and grows from there as it has grown in the trace.
func (p partition) evictions(train int, limit float64) int {
	n := len(p.members)
	requests, least, gone := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, m := range p.members {
		sorted := slices.Sorted(slices.Values(m[:train]))
		requests[i], least[i] = sorted[train/2], sorted[0]
	}
	count := 0
	use := func(i, minute int) float64 { return max(p.members[i][minute]-gone[i], least[i]) }
	for minute := train; minute < len(p.sum); minute++ {
		sum := 0.0
		for i := range p.members {
			sum += use(i, minute)
		}
		for range p.members {
			if sum <= limit {
				break
			}
			victim, most := 0, math.Inf(-1)
			for i := range p.members {
				if by := use(i, minute) - requests[i]; by > most && use(i, minute) > least[i] {
					victim, most = i, by
				}
			}
			if math.IsInf(most, -1) {
				break
			}
			freed := use(victim, minute) - least[victim]
			gone[victim] += freed
			sum -= freed
			count++
		}
	}
	return count
}

// result is one line of the table.
type result struct {
	Contender    string `json:"contender"`
	Members      int    `json:"members"`
	TrainMinutes int    `json:"trainMinutes"`
	// Slack is 1 - mean use/limit, of the mean partition. Exceeded is the share of partitions that
	// ever exceed their limit, and Evictions the number for each partition. Lent is the number where
	// the node has a quarter of the limit to lend.
	Slack     float64 `json:"slack"`
	Exceeded  float64 `json:"exceeded"`
	Evictions float64 `json:"evictions"`
	Lent      float64 `json:"evictionsWithBurst"`

	draws int
	// ours is the slack of our contender with all limits multiplied so that as many exceed them.
	ours float64
	// hindsight is the slack with all limits multiplied so that 1 of 200 exceeds them.
	hindsight float64
}

// results judges the contenders of a cell.
func (c cell) results(contenders []contender) []result {
	list := make([]result, 0, len(contenders))
	for i, by := range contenders {
		r := result{Contender: by.name, Members: c.members, TrainMinutes: c.train, draws: len(c.draws)}
		r.Slack, r.Exceeded = c.at(i, 1)
		for _, row := range c.draws {
			r.Evictions += float64(row[i].evictions) / float64(len(c.draws))
			r.Lent += float64(row[i].lent) / float64(len(c.draws))
		}
		r.ours, _ = c.at(0, c.factor(0, r.Exceeded))
		r.hindsight, _ = c.at(i, c.factor(i, 1./sizing.Beyond))
		list = append(list, r)
	}
	return list
}

// at returns slack and exceedings with all limits of a contender multiplied.
func (c cell) at(contender int, factor float64) (slack, exceeded float64) {
	for _, row := range c.draws {
		v := row[contender]
		slack += 1 - v.mean/(v.limit*factor)
		if v.peak > v.limit*factor {
			exceeded++
		}
	}
	n := float64(len(c.draws))
	return slack / n, exceeded / n
}

// factor returns the smallest factor with which no larger share exceeds its limit.
func (c cell) factor(contender int, exceeded float64) float64 {
	ratios := make([]float64, 0, len(c.draws))
	for _, row := range c.draws {
		ratios = append(ratios, row[contender].peak/row[contender].limit)
	}
	slices.Sort(ratios)
	return ratios[max(0, len(ratios)-1-int(math.Round(exceeded*float64(len(ratios)))))]
}

// interval returns the 95 % interval of a share by Wilson.
func interval(share float64, draws int) (low, high float64) {
	const z = 1.96
	n := float64(draws)
	middle := share + z*z/(2*n)
	half := z * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return max(0, (middle-half)/(1+z*z/n)), (middle + half) / (1 + z*z/n)
}
