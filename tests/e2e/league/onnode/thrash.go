package main

import (
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

const (
	// thrashed is the size of what is read again and again. The pod has less memory.
	thrashed = 128 << 20
	// A reader touches pages so often that the kernel takes each for hot, and rests in between: a node
	// of which a task runs does not wait.
	readers, touches = 16, 32
)

// thrash has the node wait for its disk: threads read random pages of a mapped file, and the kernel
// drops them for each other.
func thrash() error {
	file, err := fileOnDisk()
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(readers + 2) // a thread that waits for a page keeps its P
	var sum atomic.Uint32           // what nobody could see the compiler would not read
	for range readers {
		go func() {
			for ; ; <-time.After(time.Millisecond) {
				for range touches {
					sum.Add(uint32(file[rand.IntN(thrashed)]))
				}
			}
		}()
	}
	select {}
}

// fileOnDisk returns a file on the disk as memory.
func fileOnDisk() ([]byte, error) {
	file, err := os.Create("/thrash")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for written, part := 0, make([]byte, 1<<20); written < thrashed; written += len(part) {
		if _, err := file.Write(part); err != nil {
			return nil, err
		}
	}
	if err := file.Sync(); err != nil {
		return nil, err
	}
	return unix.Mmap(int(file.Fd()), 0, thrashed, unix.PROT_READ, unix.MAP_SHARED)
}

// fullPressure returns the share of the last ten seconds in percent in which all tasks of the node
// waited for memory.
func fullPressure() (float64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	stats, err := proc.PSIStatsForResource("memory")
	if err != nil {
		return 0, err
	}
	return stats.Full.Avg10, nil
}
