package evict

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// MeasureBurst returns how fast a partition may grow on a machine with that many CPUs, in bytes per
// second: the rate at which one thread touches new memory, times hugePages and cpus, between
// minBurst and maxBurst. Polls cost most on a machine with slow memory: an emulated one has some
// 300 MiB/s. The rate counts the thread's own CPU time, because other processes may have the CPUs
// while a node boots. With an error the result is maxBurst.
func MeasureBurst(cpus int) (float64, error) {
	runtime.LockOSThread() // whose CPU time counts
	defer runtime.UnlockOSThread()
	const tries = 3
	best := 0.0
	for range tries {
		rate, err := touch()
		if err != nil {
			return maxBurst, fmt.Errorf("measure how fast memory is: %w", err)
		}
		best = max(best, rate)
	}
	return min(max(hugePages*float64(cpus)*best, minBurst), maxBurst), nil
}

// touch returns the bytes of new memory that this thread touches in a second of its CPU time.
func touch() (float64, error) {
	const size = 8 << 20
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, fmt.Errorf("mmap: %w", err)
	}
	var begin, end unix.Timespec
	err = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &begin)
	for i := 0; i < size; i += unix.Getpagesize() {
		memory[i] = 1
	}
	err = errors.Join(err, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &end), unix.Munmap(memory))
	return size / max(time.Duration(end.Nano()-begin.Nano()).Seconds(), 1e-9), err
}
