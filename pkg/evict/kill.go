package evict

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// KillCgroup kills all processes of the cgroup in dir and below it, at once (cgroup.kill, Linux
// 5.14). It returns fs.ErrNotExist if the cgroup is gone or the kernel has no cgroup.kill.
func KillCgroup(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = file.WriteString("1"); errors.Is(err, unix.ENODEV) {
		err = fs.ErrNotExist // removed since the open (kernfs_fop_write_iter)
	}
	return errors.Join(err, file.Close())
}
