package recorder

import "time"

// counters holds, by cgroup, the last values of counts that only grow.
type counters map[string]counted

type counted struct {
	cpu, stalled time.Duration
	known, asked bool
}

// rates holds the usage of a cgroup in a stretch of time.
type rates struct {
	workingSet, fileMapped, inactiveFile uint64
	milliCPU                             uint32
}

// rates reads a cgroup. took is the time since the last call.
func (r *Recorder) rates(cgroup string, took time.Duration) (rates, error) {
	usage, err := r.Cgroups.Usage(cgroup)
	if err != nil {
		delete(r.counters, cgroup)
		return rates{}, err
	}
	c := r.counters[cgroup]
	out := rates{workingSet: usage.WorkingSet(), fileMapped: usage.FileMapped, inactiveFile: usage.InactiveFile}
	// A count that is smaller than the last belongs to another cgroup with the same name.
	if c.known && took > 0 && usage.CPUTime >= c.cpu {
		out.milliCPU = uint32((usage.CPUTime - c.cpu) * 1000 / took)
	}
	c.cpu, c.known = usage.CPUTime, true
	r.counters[cgroup] = c
	return out, nil
}

// percent returns the part of the time since the last call in which a cgroup was stalled, in
// percent with two decimals. total is the time since the cgroup was created.
func (c counters) percent(cgroup string, total, took time.Duration) float64 {
	last := c[cgroup]
	out := 0.0
	if last.asked && took > 0 && total >= last.stalled {
		out = float64((total-last.stalled)*10000/took) / 100
	}
	last.stalled, last.asked = total, true
	c[cgroup] = last
	return out
}
