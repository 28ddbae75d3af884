package daemon

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// niceness prefers the plugin to others on a busy CPU. While a node boots, runtime, kubelet and the
// first containers compete for the CPUs, and the runtime ends a plugin that takes more than two
// seconds for an answer (plugin_request_timeout). An answer takes milliseconds of CPU time, and the
// plugin ends with the boot.
const niceness = -10

// raisePriority gives the threads of this process that niceness. Linux has one for each thread, and
// a new thread inherits its creator's (setpriority(2), "C library/kernel differences").
func raisePriority() error {
	const tasks = "/proc/self/task"
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, niceness); err != nil && !errors.Is(err, unix.ESRCH) {
			return os.NewSyscallError("setpriority", err)
		}
	}
	return nil
}
