package evict

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroups"
)

// condemnPatience is the time for which Kill waits for the kernel to lower a limit. The kernel
// returns from the write when usage is below, or when there is nothing left to kill
// (memory_max_write, mm/memcontrol.c).
const condemnPatience = time.Second

// condemn has the kernel's OOM killer kill the cgroup in dir: it lowers its memory.max to half of
// its usage. Until the memory of a process that the kernel has selected itself is back, it selects
// no other at the limit of the partition, unlike after a SIGKILL alone (docs/eviction.md). A limit
// of half is met when the largest process has ended, and needs no kill of what holds a few pages.
func condemn(dir string, patience time.Duration) {
	usage, err := cgroups.FS(dir).MemoryCurrent("")
	if err != nil {
		return // it has ended
	}
	// os.OpenFile sets O_NONBLOCK, with which the kernel does not kill in the write (Linux 6.16).
	//guard: the kernel kills before the write of a limit returns
	fd, err := unix.Open(filepath.Join(dir, "memory.max"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	limit := os.NewFile(uintptr(fd), "memory.max")
	//guard: a limit that cannot be met delays no kill
	within(patience, func() {
		// Whatever comes of it: all processes are killed next.
		_, _ = limit.WriteString(strconv.FormatUint(usage/2, 10))
		_ = limit.Close()
	})
}

// giveBack writes the limit that a container had before it was condemned, if it has a lower one:
// the program may have ended before the kill, and the kernel need not have killed. It returns
// fs.ErrNotExist if the container has ended.
func giveBack(tree cgroups.FS, c Container) error {
	if c.MemoryMax == 0 {
		return nil
	}
	present, err := tree.MemoryMax(c.Cgroup)
	//guard: a limit that was raised since is not given back
	if err != nil || present >= c.MemoryMax {
		return err
	}
	text := "max"
	if c.MemoryMax != cgroups.Unlimited {
		text = strconv.FormatUint(c.MemoryMax, 10)
	}
	file, err := os.OpenFile(filepath.Join(tree.Path(c.Cgroup), "memory.max"), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	switch {
	case errors.Is(err, unix.ENODEV): // it has ended since it was read
		return fs.ErrNotExist
	case err != nil:
		return fmt.Errorf("giving container %s its memory limit of %s back: %w; restart it", c.ID, text, err)
	}
	return nil
}
