package recommend

import (
	"fmt"
	"slices"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/output"
	"nodepartition/internal/samples"
)

// Reserved is a reservation of the kubelet's configuration.
type Reserved struct {
	Memory   Figure `json:"memory"`
	MilliCPU uint64 `json:"milliCPU"`
	// WhyCPU is the reasoning for MilliCPU.
	WhyCPU string `json:"whyCPU"`
	// WithPartition is Memory and the part of memoryLimit that the members do not request. It is of
	// systemReserved alone, and absent without a limit.
	WithPartition *Figure `json:"withPartition,omitempty"`
}

// The parts of the node outside of pods.
const (
	kubeServices  = "the services of the kubelet and of the runtime"
	otherServices = "the other services"
)

// reserved computes both reservations: services of the kubelet and of the runtime are kubeReserved,
// and all else outside of kubepods.slice is systemReserved.
func (r *Recommendation) reserved(list []samples.Sample, factor float64) {
	var kube, system measured
	for i := range list {
		var inside, all, insideCPU, allCPU float64
		for _, g := range list[i].Groups {
			if g.Kube {
				inside += float64(g.WorkingSetBytes)
				insideCPU += float64(g.MilliCPU)
			} else {
				all += float64(g.WorkingSetBytes)
				allCPU += float64(g.MilliCPU)
			}
		}
		if all == 0 {
			continue
		}
		kube.add(&list[i], inside, insideCPU)
		system.add(&list[i], max(all-inside, 0), max(allCPU-insideCPU, 0))
	}
	if len(system.memory) == 0 {
		return
	}
	if slices.ContainsFunc(kube.memory, func(p point) bool { return p.bytes > 0 }) {
		r.KubeReserved = r.reserve(kubeServices, kube, factor)
	} else {
		r.warn("the history has no service of the kubelet or of the runtime: systemReserved includes them, and there is no figure for kubeReserved")
	}
	r.SystemReserved = r.reserve(otherServices, system, factor)
}

// measured holds a series of memory, and the values of CPU.
type measured struct {
	memory []point
	cpu    []float64
}

func (u *measured) add(s *samples.Sample, bytes, milli float64) {
	u.memory = append(u.memory, point{s.Time, bytes, s.Boot})
	u.cpu = append(u.cpu, milli)
}

func (r *Recommendation) reserve(name string, u measured, factor float64) *Reserved {
	leaks := groupLeaks(name, u.memory)
	r.Leaks = append(r.Leaks, leaks...)
	peak, at := 0.0, time.Time{}
	for _, p := range u.memory {
		if p.bytes > peak || at.IsZero() {
			peak, at = p.bytes, p.at
		}
	}
	need := uint64(peak * factor)
	out := &Reserved{Memory: Figure{Bytes: roundUp(need, reserveStep), PeakBytes: uint64(peak), PeakTime: at}}
	out.Memory.why("%s: the largest working set is %s, in the ten minutes to %s", name, bytesize.Text(uint64(peak)), output.Time(at))
	out.Memory.why("plus %.0f %% is %s, rounded up to a multiple of %s", (factor-1)*100, bytesize.Text(need), bytesize.Text(reserveStep))
	if len(leaks) > 0 {
		l := leaks[len(leaks)-1]
		out.Memory.why("%s of it were added since %s, %s an hour: that is not subtracted, because nothing evicts a service",
			bytesize.Text(l.GrowthBytes), output.Time(l.From), bytesize.Text(l.BytesPerHour))
		r.warn("%s grow by %s an hour, and nothing evicts them: restart what leaks, or the reservation will not be enough in some %s",
			name, bytesize.Text(l.BytesPerHour), text(l.until(out.Memory.Bytes-min(uint64(peak), out.Memory.Bytes))))
	}
	busy := percentile(u.cpu, cpuPercentile)
	out.MilliCPU = roundUp(uint64(busy*factor), cpuStep)
	out.WhyCPU = cpuReason(busy, factor)
	return out
}

// shareOfPartition adds to systemReserved the part of memoryLimit that the members do not request,
// which the scheduler promises to user pods too (docs/budget.md).
func (r *Recommendation) shareOfPartition(list []samples.Sample) {
	if r.MemoryLimit == nil || r.SystemReserved == nil {
		return
	}
	requested, known := uint64(0), false
	for i := range list {
		if list[i].Partition == nil {
			continue
		}
		if bytes, ok := requests(&list[i]); ok { // the last one counts: those are the members now
			requested, known = bytes, true
		}
	}
	limit := r.MemoryLimit.Bytes
	share := roundUp(limit-min(requested, limit), reserveStep)
	f := &Figure{Bytes: r.SystemReserved.Memory.Bytes + share}
	what := fmt.Sprintf("the members request %s", bytesize.Text(requested))
	if !known {
		what = "what the members request is not known"
	}
	f.why("%s for the services, and %s for the partition: memoryLimit is %s, %s, and the scheduler promises the rest to user pods unless it is reserved",
		bytesize.Text(r.SystemReserved.Memory.Bytes), bytesize.Text(share), bytesize.Text(limit), what)
	r.SystemReserved.WithPartition = f
}
