package cgroups

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// MemoryMeters reads the memory of many cgroups repeatedly. The files stay open, so that a reading
// is three system calls: each path has five components, which the kernel looks up one by one under
// a lock (kernfs_dop_revalidate, fs/kernfs/dir.c). Three files are open for each cgroup.
type MemoryMeters struct {
	root   FS
	open   map[string]*meterFiles
	buffer [maxFile]byte
}

// meterFiles are the open files of one cgroup. read means that it was read since the last Sweep.
type meterFiles struct {
	events, current, stat int
	read                  bool
}

// MemoryMeters returns one without open files. The caller closes it.
func (f FS) MemoryMeters() *MemoryMeters {
	return &MemoryMeters{root: f, open: map[string]*meterFiles{}}
}

// Read reads a cgroup as Populated and Memory do, with minimum in place of its memory.min. It opens
// the files of a cgroup that it has not read before. It returns false for a cgroup that cannot be
// read so: its path may lead to a new one.
func (m *MemoryMeters) Read(cgroup string, minimum uint64) (populated bool, r MemoryReading, ok bool) {
	of := m.open[cgroup]
	if of == nil {
		var err error
		if of, err = m.files(cgroup); err != nil {
			return false, r, false
		}
		m.open[cgroup] = of
	}
	populated, r, err := m.read(of)
	if err != nil {
		//guard: files of a cgroup that was created again are not those of the one before
		m.forget(cgroup)
		return false, r, false
	}
	of.read = true
	r.Protected = r.below(minimum)
	return populated, r, true
}

// files opens the files of a cgroup.
func (m *MemoryMeters) files(cgroup string) (*meterFiles, error) {
	of := &meterFiles{-1, -1, -1, false}
	for _, file := range []struct {
		name string
		fd   *int
	}{{"cgroup.events", &of.events}, {"memory.current", &of.current}, {"memory.stat", &of.stat}} {
		path := m.root.Path(cgroup) + "/" + file.name
		fd, err := Uninterrupted(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
		if err != nil {
			of.close()
			return nil, err
		}
		*file.fd = fd
	}
	return of, nil
}

func (m *MemoryMeters) read(of *meterFiles) (populated bool, r MemoryReading, err error) {
	r.Max = Unlimited
	text, err := m.text(of.events)
	if err != nil {
		return false, r, err
	}
	populated = !bytes.Contains(text, []byte("populated 0\n"))
	if text, err = m.text(of.current); err != nil {
		return false, r, err
	}
	if r.Current, err = strconv.ParseUint(string(bytes.TrimSuffix(text, newline)), 10, 64); err != nil {
		return false, r, err
	}
	if text, err = m.text(of.stat); err != nil {
		return false, r, err
	}
	return populated, r, parseKeyed(
		text,
		[]keyed{{"inactive_file", &r.InactiveFile}, {"active_file", &r.ActiveFile}, {"slab_reclaimable", &r.SlabReclaimable}},
	)
}

func (m *MemoryMeters) text(fd int) ([]byte, error) {
	n, err := Uninterrupted(func() (int, error) { return unix.Pread(fd, m.buffer[:], 0) })
	if err != nil {
		return nil, err
	}
	return m.buffer[:n], nil
}

// Sweep closes the files of cgroups that were not read since the last Sweep.
func (m *MemoryMeters) Sweep() {
	for cgroup, of := range m.open {
		if !of.read {
			m.forget(cgroup)
		}
		of.read = false
	}
}

// Close closes all files.
func (m *MemoryMeters) Close() {
	for cgroup := range m.open {
		m.forget(cgroup)
	}
}

func (m *MemoryMeters) forget(cgroup string) {
	if of := m.open[cgroup]; of != nil {
		of.close()
		delete(m.open, cgroup)
	}
}

func (of *meterFiles) close() {
	for _, fd := range []int{of.events, of.current, of.stat} {
		if fd >= 0 {
			_ = unix.Close(fd) // opened for reading
		}
	}
}
