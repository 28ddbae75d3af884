package evict

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// MeasureBurst returns how fast a partition may grow on this machine, in bytes per second: the rate
// at which one thread touches new memory, times threads, between minBurst and maxBurst. Polls cost
// most on a machine with slow memory. An emulated machine has some 100 MiB/s, and each poll takes a
// thousand times as long as on a server. Measuring takes a few milliseconds on a server.
func MeasureBurst() (float64, error) {
	const size, tries = 8 << 20, 3
	best := 0.0
	for range tries { // another process may have had the CPU
		memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return maxBurst, fmt.Errorf("measure how fast memory is: mmap: %w", err)
		}
		begin := time.Now()
		for i := 0; i < size; i += unix.Getpagesize() {
			memory[i] = 1
		}
		best = max(best, size/max(time.Since(begin).Seconds(), 1e-9))
		if err := unix.Munmap(memory); err != nil {
			return maxBurst, fmt.Errorf("measure how fast memory is: munmap: %w", err)
		}
	}
	return min(max(threads*best, minBurst), maxBurst), nil
}
