package cgroupfs

import (
	"math"
	"time"
)

// Usage is the memory and the CPU time that a cgroup uses, those below it included.
type Usage struct {
	// HasMemory is false where the memory controller is off; what concerns memory is zero then.
	HasMemory bool
	// MemoryCurrent in bytes (memory.current), page cache included.
	MemoryCurrent uint64
	// InactiveFile is the part of MemoryCurrent, in bytes, that the kernel gives up first: page cache that was not used
	// lately (memory.stat).
	InactiveFile uint64
	// CPUTime was used since the cgroup was made (usage_usec of cpu.stat). It is there without the cpu controller too.
	CPUTime time.Duration
}

// WorkingSet in bytes is what the kubelet evicts by (MemoryReading.WorkingSet).
func (u Usage) WorkingSet() uint64 { return workingSet(u.MemoryCurrent, u.InactiveFile) }

// Stat is what a cgroup uses, what it may use, and what it suffers from, those below it included.
type Stat struct {
	Usage
	// MemoryMax in bytes (memory.max); Unlimited too where the memory controller is off.
	MemoryMax uint64
	// SwapCurrent in bytes (memory.swap.current); 0 too where the kernel has no swap accounting.
	SwapCurrent uint64
	// MemoryEvents are those of the cgroup and of all below it (memory.events).
	MemoryEvents MemoryEvents
	// LocalMemoryEvents are those of the cgroup itself (memory.events.local, Linux 5.2).
	LocalMemoryEvents MemoryEvents

	// HasCPU is false where the cpu controller is off; weight and throttling are zero then.
	HasCPU bool
	// CPUWeight is 1 to 10000 (cpu.weight), and 0 where cpu.idle is set.
	CPUWeight uint64
	// ThrottledPeriods counts the periods in which the cgroup's own quota was used up (nr_throttled of cpu.stat).
	ThrottledPeriods uint64
	// ThrottledTime is the sum over CPUs, because of the cgroup's own quota (throttled_usec of cpu.stat).
	ThrottledTime time.Duration

	// HasPids is false where the pids controller is off; Pids is zero then, and PidsMax Unlimited.
	HasPids bool
	// Pids counts processes and threads (pids.current).
	Pids uint64
	// PidsMax is pids.max.
	PidsMax uint64

	// Pressure, by what was waited for.
	MemoryPressure, CPUPressure, IOPressure Pressure
}

// MemoryEvents count what happened since the cgroup was made (memory.events in the kernel's cgroup-v2.rst).
type MemoryEvents struct {
	// High counts reclaims because of memory.high.
	High uint64
	// Max counts the times that usage was about to go over memory.max.
	Max uint64
	// OOM counts allocations that were about to fail at the limit. It happens to the cgroup whose limit it is.
	OOM uint64
	// OOMKill counts killed processes, whatever limit it was for. It happens to the cgroup that the process was in.
	OOMKill uint64
}

// Usage reads the memory and the CPU time of the cgroup at path, relative to the root of the file system. A cgroup that is
// not there, or no longer, is an error that is fs.ErrNotExist.
func (f FS) Usage(path string) (Usage, error) {
	files := files{root: f, cgroup: path}
	files.open()
	defer files.close()
	var usage Usage
	files.memory(&usage)
	var usec uint64
	files.keyed("cpu.stat", keyed{"usage_usec", &usec})
	usage.CPUTime = microseconds(usec)
	return usage, files.result()
}

// Stat reads the cgroup at path, as Usage does. What a node has switched off is not an error: see the fields.
func (f FS) Stat(path string) (Stat, error) {
	files := files{root: f, cgroup: path}
	files.open()
	defer files.close()
	stat := Stat{MemoryMax: Unlimited, PidsMax: Unlimited}
	files.memory(&stat.Usage)
	files.number("memory.max", &stat.MemoryMax)
	files.number("memory.swap.current", &stat.SwapCurrent)
	files.memoryEvents("memory.events", &stat.MemoryEvents)
	files.memoryEvents("memory.events.local", &stat.LocalMemoryEvents)

	var usec, throttled uint64
	files.keyed("cpu.stat", keyed{"usage_usec", &usec}, keyed{"nr_throttled", &stat.ThrottledPeriods}, keyed{"throttled_usec", &throttled})
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
	f.keyed(name, keyed{"high", &events.High}, keyed{"max", &events.Max}, keyed{"oom", &events.OOM}, keyed{"oom_kill", &events.OOMKill})
}

// microseconds converts what the kernel counts; a time.Duration ends at 292 years.
func microseconds(n uint64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
}
