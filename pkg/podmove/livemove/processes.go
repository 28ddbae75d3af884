package livemove

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nodepartition/internal/cgroupfs"
)

// process is one that a file descriptor holds on to: its number is given to nobody else unnoticed.
type process struct {
	pid uint32
	fd  int
}

// processes are those of a cgroup at one moment.
type processes []process

// readPIDs returns the numbers in cgroup.procs. A cgroup that is gone has none.
func readPIDs(dir string) ([]uint32, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []uint32
	for line := range strings.Lines(string(data)) {
		pid, err := strconv.ParseUint(strings.TrimSpace(line), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs: %w", dir, err)
		}
		pids = append(pids, uint32(pid))
	}
	return pids, nil
}

// hold takes hold of the processes of a cgroup. What has ended meanwhile is left out, and so is a number that already is
// another process, in another cgroup.
func hold(dir, cgroup string) (processes, error) {
	pids, err := readPIDs(dir)
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, nil
	}
	proc, err := openFolder("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.close()
	held := make(processes, 0, len(pids))
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(int(pid), 0)
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			continue
		}
		if err != nil {
			held.release()
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
		p := process{pid, fd}
		if !p.in(proc, cgroup) {
			_ = unix.Close(fd)
			continue
		}
		held = append(held, p)
	}
	return held, nil
}

// in reports whether /proc says that the process is in a cgroup.
func (p process) in(proc *folder, cgroup string) bool {
	text, err := proc.read(strconv.FormatUint(uint64(p.pid), 10) + "/cgroup")
	return err == nil && text == "0::/"+cgroup
}

// ended reports whether the process has exited, so that its number may be another's.
func (p process) ended() bool {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	n, err := cgroupfs.Uninterrupted(func() (int, error) { return unix.Poll(fds, 0) })
	return err == nil && n > 0
}

// ended are the numbers of those that have exited.
func (ps processes) ended() []uint32 {
	fds := make([]unix.PollFd, len(ps))
	for i, p := range ps {
		fds[i] = unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN}
	}
	if n, err := cgroupfs.Uninterrupted(func() (int, error) { return unix.Poll(fds, 0) }); err != nil || n == 0 {
		return nil
	}
	var ended []uint32
	for i, p := range ps {
		if fds[i].Revents != 0 {
			ended = append(ended, p.pid)
		}
	}
	return ended
}

// moveTo moves processes into the cgroup dir, as AttachProcessesToUnit of systemd does. That refuses all of them when one
// has ended, and takes a thousand times as long; in a scope with Delegate=yes it is not needed.
func (ps processes) moveTo(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range ps {
		if p.ended() {
			continue
		}
		_, err := f.WriteString(strconv.FormatUint(uint64(p.pid), 10))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("moving process %d: %w", p.pid, err)
		}
	}
	return ps.strangers(dir)
}

func (ps processes) release() {
	for _, p := range ps {
		_ = unix.Close(p.fd)
	}
}

// strangers returns an error when a number was given to another process between the look at it and the kernel's reading it,
// and that process was moved. It cannot be undone, for nobody knows where it came from. The kernel takes no file
// descriptors of processes there, and the numbers come round after four million processes (kernel.pid_max as systemd sets
// it), so that nobody will see this.
func (ps processes) strangers(dir string) error {
	ended := ps.ended()
	if len(ended) == 0 {
		return nil
	}
	there, err := readPIDs(dir)
	ended = slices.DeleteFunc(ended, func(pid uint32) bool { return !slices.Contains(there, pid) })
	if len(ended) > 0 {
		return fmt.Errorf("processes %d ended while they were moved, and others with these numbers are in %s now", ended, dir)
	}
	return err
}
