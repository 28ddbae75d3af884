package cgroups

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// MemoryMeter reads the memory of one cgroup repeatedly. Its files stay open, so that a reading is
// two system calls, or four with memory.stat and three for each slice below with memory.min, and
// OOMEvents two.
type MemoryMeter struct {
	root               FS
	cgroup, path       string
	current, max, stat int
	// events and localEvents are opened by the first OOMEvents.
	events, localEvents int
	// reserves lists the slices below with memory.min, as they were at listedAt.
	reserves []reserve
	listedAt time.Time
	buffer   [maxFile]byte
}

// MemoryMeter opens the files of a cgroup. If the cgroup is missing, the error is fs.ErrNotExist.
// The caller closes it.
func (f FS) MemoryMeter(cgroup string) (*MemoryMeter, error) {
	m := &MemoryMeter{root: f, cgroup: cgroup, path: f.Path(cgroup)}
	m.current, m.max, m.stat, m.events, m.localEvents = -1, -1, -1, -1, -1
	err := cmp.Or(m.open(&m.current, "memory.current"), m.open(&m.max, "memory.max"), m.open(&m.stat, "memory.stat"))
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// open opens a file, unless it is open.
func (m *MemoryMeter) open(fd *int, name string) error {
	if *fd >= 0 {
		return nil
	}
	path := filepath.Join(m.path, name)
	opened, err := Uninterrupted(func() (int, error) { return m.root.open(unix.AT_FDCWD, path, readOnly) })
	if err != nil {
		return gone(&os.PathError{Op: "open", Path: path, Err: err})
	}
	*fd = opened
	return nil
}

// ReadMemory reads the memory of a cgroup once. If the cgroup is missing, the error is
// fs.ErrNotExist.
func (f FS) ReadMemory(cgroup string) (MemoryReading, error) {
	meter, err := f.MemoryMeter(cgroup)
	if err != nil {
		return MemoryReading{}, err
	}
	defer meter.Close()
	return meter.Read(func(uint64, uint64) bool { return false })
}

// Close closes the files.
func (m *MemoryMeter) Close() {
	m.closeReserves()
	for _, fd := range []int{m.current, m.max, m.stat, m.events, m.localEvents} {
		if fd >= 0 {
			_ = unix.Close(fd) // opened for reading
		}
	}
}

// Read reads the cgroup. If enough returns true for usage and limit, memory.stat is left out,
// because the kernel sums up the counts of all CPUs to format it. If the cgroup is gone, the error
// is fs.ErrNotExist.
func (m *MemoryMeter) Read(enough func(current, limit uint64) bool) (MemoryReading, error) {
	limit, err := m.number(m.max, "memory.max")
	if err != nil {
		return MemoryReading{Max: limit}, err
	}
	skipped := false
	r, err := m.read(func(current uint64) bool {
		skipped = enough(current, limit)
		return skipped
	})
	r.Max = limit
	if err != nil || skipped {
		return r, err
	}
	//guard: page cache below memory.min is not available
	r.Protected, err = m.protected()
	return r, err
}

// read reads the cgroup without its limit and without those below. Memory that is freed between two
// reads must not count as used: memory.current is read before and after memory.stat, and the
// smaller value counts.
func (m *MemoryMeter) read(enough func(current uint64) bool) (r MemoryReading, err error) {
	if r.Current, err = m.number(m.current, "memory.current"); err != nil || enough(r.Current) {
		return r, err
	}
	err = m.keyed(
		m.stat, "memory.stat",
		keyed{"inactive_file", &r.InactiveFile},
		keyed{"active_file", &r.ActiveFile},
		keyed{"slab_reclaimable", &r.SlabReclaimable},
	)
	if err != nil {
		return r, err
	}
	after, err := m.number(m.current, "memory.current")
	//guard: memory freed while memory.stat was read does not count as used
	r.Current = min(r.Current, after)
	return r, err
}

// OOMEvents returns two counts of the cgroup: the processes killed in it or below (oom_kill of
// memory.events), and the times that its own limit could not be kept (oom of memory.events.local).
func (m *MemoryMeter) OOMEvents() (killed, atLimit uint64, err error) {
	killed, err = m.count(&m.events, "memory.events", "oom_kill")
	if err != nil {
		return 0, 0, err
	}
	atLimit, err = m.count(&m.localEvents, "memory.events.local", "oom")
	return killed, atLimit, err
}

// count returns a value of a flat keyed file, 0 without the file or the key: kernels differ.
func (m *MemoryMeter) count(fd *int, name, key string) (n uint64, err error) {
	if err := m.open(fd, name); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	err = m.keyed(*fd, name, keyed{key, &n})
	return n, err
}

// keyed reads some lines of a flat keyed file, as files.keyed does.
func (m *MemoryMeter) keyed(fd int, name string, want ...keyed) error {
	text, err := m.text(fd, name)
	if err != nil {
		return err
	}
	if err := parseKeyed(text, want); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(m.path, name), err)
	}
	return nil
}

func (m *MemoryMeter) number(fd int, name string) (uint64, error) {
	text, err := m.text(fd, name)
	if err != nil {
		return 0, err
	}
	n, err := parseMax(string(bytes.TrimSuffix(text, newline)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(m.path, name), err)
	}
	return n, nil
}

func (m *MemoryMeter) text(fd int, name string) ([]byte, error) {
	n, err := Uninterrupted(func() (int, error) { return unix.Pread(fd, m.buffer[:], 0) })
	if err != nil {
		return nil, gone(&os.PathError{Op: "read", Path: filepath.Join(m.path, name), Err: err})
	}
	return m.buffer[:n], nil
}

// Memory reads the memory of a cgroup once, without its limit, in three reads. It has Protected
// as far as the cgroup's own memory.min protects it from reclaim for a cgroup above.
func (f FS) Memory(cgroup string) (MemoryReading, error) {
	files := files{root: f, cgroup: cgroup}
	r := MemoryReading{Max: Unlimited}
	setting := uint64(0)
	files.number("memory.min", &setting)
	has := files.number("memory.current", &r.Current)
	files.keyed(
		"memory.stat",
		keyed{"inactive_file", &r.InactiveFile},
		keyed{"active_file", &r.ActiveFile},
		keyed{"slab_reclaimable", &r.SlabReclaimable},
	)
	if err := files.result(); err != nil {
		return r, err
	}
	if !has {
		return r, fmt.Errorf("%s: %w: the memory controller is off", filepath.Join(string(f), cgroup), fs.ErrNotExist)
	}
	//guard: the memory of an evicted pod is back when its cgroup no longer protects it
	r.Protected = r.below(setting)
	return r, nil
}

// Kills returns the processes that were killed in a cgroup and those below it, at any limit
// (memory.events).
func (f FS) Kills(cgroup string) (uint64, error) {
	files := files{root: f, cgroup: cgroup}
	var all MemoryEvents
	files.memoryEvents("memory.events", &all)
	return all.OOMKill, files.result()
}
