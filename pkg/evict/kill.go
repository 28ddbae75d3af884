package evict

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// KillCgroup kills all processes of the cgroup in dir and below it, at once (cgroup.kill, Linux
// 5.14), and takes their memory back. It returns fs.ErrNotExist if the cgroup is gone or the kernel
// has no cgroup.kill.
func KillCgroup(dir string) error { return killCgroup(dir, reap) }

func killCgroup(dir string, reap func(pid int)) error {
	file, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("1")
	if errors.Is(err, unix.ENODEV) {
		err = fs.ErrNotExist // removed since the open (kernfs_fop_write_iter)
	}
	if err == nil {
		eachProcess(dir, reap)
	}
	return errors.Join(err, file.Close())
}

// maxReaped bounds the processes whose memory is taken back. The others give it back as they end.
const maxReaped = 1000

// eachProcess calls what for the processes of the cgroup in dir and below it that have not ended.
func eachProcess(dir string, what func(pid int)) {
	left := maxReaped
	// What cannot be read has ended.
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		text, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for field := range bytes.FieldsSeq(text) {
			pid, err := strconv.Atoi(string(field))
			if err != nil || pid <= 0 { // 0 is a process of another PID namespace
				continue
			}
			if left--; left < 0 {
				return fs.SkipAll
			}
			what(pid)
		}
		return nil
	})
}

// reap takes the anonymous memory of a process back that has got SIGKILL, without waiting until
// the process runs and ends (process_mrelease, Linux 5.15). On a busy node that takes a second. At
// its end the kernel no longer counts the size of the process, while the pages are still charged:
// at the limit it then kills a process of another pod. For a process that does not end, as one of
// a PID that was used again, the kernel does nothing (EINVAL).
func reap(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	_, _, _ = unix.Syscall(unix.SYS_PROCESS_MRELEASE, uintptr(fd), 0, 0)
	_ = unix.Close(fd)
}
