package recommend

import (
	"math"
	"time"

	"nodepartition/internal/samples"
)

// origin is a Monday.
var origin = time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC)

// shape returns the usage of a pod in MiB at a time after origin, and a mark that changes when the
// pod is started again.
type shape func(since time.Duration) (mebis float64, life string)

// pod is a pod of a synthetic history.
type pod struct {
	name     string
	priority int32
	request  uint64 // MiB
	static   bool
	uses     shape
}

func flat(mebis float64) shape {
	return func(since time.Duration) (float64, string) {
		return mebis + 2*math.Sin(since.Hours()*7), "a" // some noise
	}
}

// daily is a wave with its peak at noon.
func daily(low, high float64) shape {
	return func(since time.Duration) (float64, string) {
		return low + (high-low)*(1-math.Cos(since.Hours()/12*math.Pi))/2, "a"
	}
}

// nightly uses more for forty minutes from three o'clock on.
func nightly(base, peak float64) shape {
	return func(since time.Duration) (float64, string) {
		if of := since % (24 * time.Hour); of >= 3*time.Hour && of < 3*time.Hour+40*time.Minute {
			return peak, "a"
		}
		return base, "a"
	}
}

// once uses more for an hour.
func once(base, peak float64, at time.Duration) shape {
	return func(since time.Duration) (float64, string) {
		if since >= at && since < at+time.Hour {
			return peak, "a"
		}
		return base, "a"
	}
}

// leak grows by so many MiB an hour from a time on, and begins again with each start.
func leak(base, perHour float64, from time.Duration, starts ...time.Duration) shape {
	return func(since time.Duration) (float64, string) {
		life, begin := "a", from
		for _, s := range starts {
			if since >= s {
				life, begin = s.String(), s
			}
		}
		return base + perHour*max((since-begin).Hours(), 0), life
	}
}

// warmUp fills a cache in some hours, and stops.
func warmUp(base, full float64, takes time.Duration) shape {
	return func(since time.Duration) (float64, string) {
		return base + (full-base)*min(since.Hours()/takes.Hours(), 1), "a"
	}
}

// history returns samples of ten minutes with the pods, without those in the gaps.
func history(length time.Duration, boot func(time.Duration) string, gaps [][2]time.Duration, pods ...pod) []samples.Sample {
	var list []samples.Sample
next:
	for since := 10 * time.Minute; since <= length; since += 10 * time.Minute {
		for _, gap := range gaps {
			if since > gap[0] && since <= gap[1] {
				continue next
			}
		}
		at := origin.Add(since)
		s := samples.Sample{Time: at, Seconds: 600, Boot: boot(since), Partition: &samples.Usage{PeakTime: at}}
		for _, p := range pods {
			mebis, life := p.uses(since)
			bytes := uint64(mebis * mebi)
			s.Partition.UsedPeakBytes += bytes
			s.Members = append(s.Members, samples.Member{
				UID: "uid-" + p.name, Namespace: "kube-system", Name: p.name, Containers: life, QoS: "Burstable",
				Priority: p.priority, RequestBytes: p.request * mebi, Static: p.static, WorkingSetBytes: bytes, UsedBytes: bytes,
			})
		}
		s.Partition.UsedLowBytes = s.Partition.UsedPeakBytes
		s.Partition.CurrentPeakBytes = s.Partition.UsedPeakBytes * 5 / 4
		s.Groups = []samples.Group{
			{Name: "system.slice", WorkingSetBytes: 500 * mebi, MilliCPU: 200},
			{Name: "user.slice", WorkingSetBytes: 20 * mebi, MilliCPU: 10},
			{Name: "system.slice/kubelet.service", Kube: true, WorkingSetBytes: 120 * mebi, MilliCPU: 80},
			{Name: "system.slice/containerd.service", Kube: true, WorkingSetBytes: 180 * mebi, MilliCPU: 70},
		}
		list = append(list, s)
	}
	return list
}

func oneBoot(time.Duration) string { return "boot1" }

const day = 24 * time.Hour

// reboot is the time at which the node restarts in recorded.
const reboot = 4*day + 9*time.Hour

// recorded returns a week with a leak that begins on the second day, peaks each night and once, a
// restart of the node, and a gap.
func recorded() []samples.Sample {
	boot := func(since time.Duration) string {
		if since > reboot {
			return "boot2"
		}
		return "boot1"
	}
	return history(7*day, boot, [][2]time.Duration{{2*day + 13*time.Hour, 2*day + 18*time.Hour}, {reboot - 20*time.Minute, reboot}},
		pod{"dns", 2_000_000_000, 70, false, flat(60)},
		pod{"proxy", 2_000_001_000, 50, false, flat(45)},
		pod{"etcd", 2_000_001_000, 100, true, flat(90)},
		pod{"metrics", 2_000_000_000, 128, false, daily(70, 130)},
		pod{"backup", 0, 100, false, nightly(60, 380)},
		pod{"weekly", 0, 50, false, once(20, 330, 5*day+3*time.Hour)},
		pod{"cache", 0, 64, false, warmUp(30, 120, 8*time.Hour)},
		pod{"collector", 0, 64, false, leak(50, 9, day, reboot)},
	)
}
