package cgroups

import (
	"math"
	"time"
)

// Usage is the memory and the CPU time that a cgroup uses, including cgroups below it.
type Usage struct {
	// HasMemory is false if the memory controller is off; the values of memory are then zero.
	HasMemory bool
	// MemoryCurrent in bytes (memory.current), page cache included.
	MemoryCurrent uint64
	// InactiveFile is the part of MemoryCurrent, in bytes, that the kernel reclaims first: page cache
	// that was not used recently (memory.stat).
	InactiveFile uint64
	// CPUTime was used since the cgroup was created (usage_usec of cpu.stat). It does not need the cpu
	// controller.
	CPUTime time.Duration
}

// WorkingSet returns the usage that the kubelet evicts by, in bytes (MemoryReading.WorkingSet).
func (u Usage) WorkingSet() uint64 { return workingSet(u.MemoryCurrent, u.InactiveFile) }

// Stat holds usage, limits, events and pressure of a cgroup, including cgroups below it.
type Stat struct {
	Usage
	// MemoryMax in bytes (memory.max); Unlimited, too, if the memory controller is off.
	MemoryMax uint64
	// SwapCurrent in bytes (memory.swap.current); 0, too, if the kernel has no swap accounting.
	SwapCurrent uint64
	// MemoryEvents of the cgroup and of all below it (memory.events).
	MemoryEvents MemoryEvents
	// LocalMemoryEvents of the cgroup itself (memory.events.local, Linux 5.2).
	LocalMemoryEvents MemoryEvents

	// HasCPU is false if the cpu controller is off; weight and throttling are then zero.
	HasCPU bool
	// cpuWeight is 1 to 10000 (cpu.weight), and 0 if cpu.idle is set.
	CPUWeight uint64
	// ThrottledPeriods counts the periods in which the cgroup used up its own quota (nr_throttled of
	// cpu.stat).
	ThrottledPeriods uint64
	// ThrottledTime is the sum over all CPUs, caused by the cgroup's own quota (throttled_usec of
	// cpu.stat).
	ThrottledTime time.Duration

	// HasPids is false if the pids controller is off; Pids is then zero, and PidsMax Unlimited.
	HasPids bool
	// Pids counts processes and threads (pids.current).
	Pids uint64
	// PidsMax is pids.max.
	PidsMax uint64

	// Pressure by resource.
	MemoryPressure, CPUPressure, IOPressure Pressure
}

// MemoryEvents holds counts since the cgroup was created (memory.events in the kernel's
// cgroup-v2.rst).
type MemoryEvents struct {
	// Max counts the times that usage was about to go over memory.max.
	Max uint64
	// OOM counts allocations that were about to fail at the limit, in the cgroup with that limit.
	OOM uint64
	// OOMKill counts killed processes, for any limit, in the cgroup of the process.
	OOMKill uint64
}

// Usage reads the memory and the CPU time of the cgroup at path, relative to the root of the file
// system. If the cgroup is missing or gone, it returns an error that is fs.ErrNotExist.
func (f FS) Usage(path string) (Usage, error) {
	files := files{root: f, cgroup: path}
	var usage Usage
	files.memory(&usage)
	var usec uint64
	files.keyed("cpu.stat", keyed{"usage_usec", &usec})
	usage.CPUTime = microseconds(usec)
	return usage, files.result()
}

// Stat reads the cgroup at path, as Usage does. Features that are off on the node do not cause an
// error: the fields have the values for them.
func (f FS) Stat(path string) (Stat, error) {
	files := files{root: f, cgroup: path}
	stat := Stat{MemoryMax: Unlimited, PidsMax: Unlimited}
	files.memory(&stat.Usage)
	files.number("memory.max", &stat.MemoryMax)
	files.number("memory.swap.current", &stat.SwapCurrent)
	files.memoryEvents("memory.events", &stat.MemoryEvents)
	files.memoryEvents("memory.events.local", &stat.LocalMemoryEvents)

	var usec, throttled uint64
	files.keyed(
		"cpu.stat",
		keyed{"usage_usec", &usec},
		keyed{"nr_throttled", &stat.ThrottledPeriods},
		keyed{"throttled_usec", &throttled},
	)
	stat.CPUTime, stat.ThrottledTime = microseconds(usec), microseconds(throttled)
	stat.HasCPU = files.number("cpu.weight", &stat.CPUWeight)

	stat.HasPids = files.number("pids.current", &stat.Pids)
	files.number("pids.max", &stat.PidsMax)

	files.pressure("memory.pressure", &stat.MemoryPressure)
	files.pressure("cpu.pressure", &stat.CPUPressure)
	files.pressure("io.pressure", &stat.IOPressure)
	return stat, files.result()
}

func (f *files) memory(usage *Usage) {
	usage.HasMemory = f.number("memory.current", &usage.MemoryCurrent)
	f.keyed("memory.stat", keyed{"inactive_file", &usage.InactiveFile})
}

func (f *files) memoryEvents(name string, events *MemoryEvents) {
	f.keyed(name, keyed{"max", &events.Max}, keyed{"oom", &events.OOM}, keyed{"oom_kill", &events.OOMKill})
}

// microseconds converts a count of the kernel; a time.Duration ends at 292 years.
func microseconds(n uint64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
}
