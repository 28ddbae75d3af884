package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"node-partition.io/node-partition/internal/cgroups"
)

// sliceMetric is a metric with the labels partition and slice alone. value returns false if a slice
// has no value, because it has no controller or no limit.
type sliceMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(cgroups.Stat) (float64, bool)
}

func sliceMetrics(to *described) []sliceMetric {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type reader = func(cgroups.Stat) (float64, bool)
	metric := func(name string, kind prometheus.ValueType, help string, value reader) sliceMetric {
		return sliceMetric{to.desc(prefix+name, help, "partition", "slice"), kind, value}
	}
	return []sliceMetric{
		metric("memory_usage_bytes", gauge, "Memory that a slice uses, page cache included (memory.current).",
			func(s cgroups.Stat) (float64, bool) { return float64(s.MemoryCurrent), s.HasMemory }),
		metric("memory_working_set_bytes", gauge, "Memory that a slice uses without inactive page cache.",
			func(s cgroups.Stat) (float64, bool) { return float64(s.WorkingSet()), s.HasMemory }),
		metric("memory_limit_bytes", gauge, "Memory that a slice may use (memory.max); absent without a limit.",
			func(s cgroups.Stat) (float64, bool) { return float64(s.MemoryMax), s.MemoryMax != cgroups.Unlimited }),
		metric("memory_swap_bytes", gauge, "Swap space that a slice uses (memory.swap.current).",
			func(s cgroups.Stat) (float64, bool) { return float64(s.SwapCurrent), s.HasMemory }),
		metric(
			"memory_limit_hits_total",
			counter,
			"Times that a slice was about to exceed its own limit (max of memory.events.local).",
			func(s cgroups.Stat) (float64, bool) { return float64(s.LocalMemoryEvents.Max), s.HasMemory },
		),
		metric(
			"memory_limit_ooms_total",
			counter,
			"Times that reclaim did not keep a slice below its own limit (oom of memory.events.local).",
			func(s cgroups.Stat) (float64, bool) { return float64(s.LocalMemoryEvents.OOM), s.HasMemory },
		),
		metric(
			"oom_kills_total",
			counter,
			"Processes in a slice, or below, that the kernel killed, for any limit (oom_kill of memory.events).",
			func(s cgroups.Stat) (float64, bool) { return float64(s.MemoryEvents.OOMKill), s.HasMemory },
		),
		metric("cpu_seconds_total", counter, "CPU time that a slice used.",
			func(s cgroups.Stat) (float64, bool) { return s.CPUTime.Seconds(), true }),
		metric(
			"cpu_throttled_periods_total",
			counter,
			"Periods in which a slice used up its own CPU quota (nr_throttled of cpu.stat).",
			func(s cgroups.Stat) (float64, bool) { return float64(s.ThrottledPeriods), s.HasCPU },
		),
		metric(
			"cpu_throttled_seconds_total",
			counter,
			"Time that its own CPU quota kept a slice from running, summed over CPUs.",
			func(s cgroups.Stat) (float64, bool) { return s.ThrottledTime.Seconds(), s.HasCPU },
		),
		metric("cpu_weight", gauge, "Weight of a slice among its siblings for CPU time, 1 to 10000 (cpu.weight).",
			func(s cgroups.Stat) (float64, bool) { return float64(s.CPUWeight), s.HasCPU }),
		metric("pids", gauge, "Processes and threads in a slice (pids.current).",
			func(s cgroups.Stat) (float64, bool) { return float64(s.Pids), s.HasPids }),
		metric("pids_limit", gauge, "Processes and threads that a slice may have (pids.max); absent without a limit.",
			func(s cgroups.Stat) (float64, bool) { return float64(s.PidsMax), s.PidsMax != cgroups.Unlimited }),
	}
}
