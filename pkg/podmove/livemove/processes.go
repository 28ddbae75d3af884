package livemove

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/cgroups"
)

// held holds the processes of a cgroup at one moment.
type held interface {
	count() int
	// moveTo moves them into another cgroup.
	moveTo(dir string) error
	release()
}

// process is a process held by a file descriptor, so that a reuse of its PID is noticed.
type process struct {
	pid uint32
	fd  int
}

// processes implements held.
type processes []process

func (ps processes) count() int { return len(ps) }

// readPIDs returns the PIDs in cgroup.procs. A cgroup that is gone has none.
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

// hold opens the processes of a cgroup, so that they can be moved. It leaves out those that have
// ended meanwhile, and PIDs that already belong to another process in another cgroup.
func hold(dir, cgroup string) (processes, error) {
	pids, err := readPIDs(dir)
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, nil
	}
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
		//guard: a PID that is in another cgroup by now is not moved
		if !p.in(cgroup) {
			_ = unix.Close(fd)
			continue
		}
		held = append(held, p)
	}
	return held, nil
}

// in reports whether the process is in a cgroup, according to /proc.
func (p process) in(cgroup string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.pid))
	return err == nil && cgroups.OfProcess(string(text)) == "/"+cgroup
}

// ended reports whether the process has exited, so that its PID may belong to another one.
func (p process) ended() bool {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	n, err := cgroups.Uninterrupted(func() (int, error) { return unix.Poll(fds, 0) })
	return err == nil && n > 0
}

// moveTo moves processes into the cgroup dir. AttachProcessesToUnit of systemd does the same, but
// refuses all of them if one has ended, and takes a thousand times as long. In a scope with
// Delegate=yes it is not needed. The kernel takes no file descriptors of processes there. PIDs
// repeat after four million processes (kernel.pid_max as systemd sets it).
func (ps processes) moveTo(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range ps {
		//guard: a process that has ended is not moved
		if p.ended() {
			continue
		}
		_, err := f.WriteString(strconv.FormatUint(uint64(p.pid), 10))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("moving process %d: %w", p.pid, err)
		}
	}
	return nil
}

func (ps processes) release() {
	for _, p := range ps {
		_ = unix.Close(p.fd)
	}
}
