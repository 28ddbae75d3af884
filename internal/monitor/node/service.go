package node

import (
	"os"
	"path/filepath"
	"strings"

	"nodepartition/internal/cgroupfs"
)

// serviceCgroup is the cgroup of the service, unless an operator has set another Slice=.
const serviceCgroup = "system.slice/partition-monitor.service"

// ServiceArgs returns the command line of the running service, nil if it does not run. proc is the
// mount point of procfs.
func ServiceArgs(cgroups cgroupfs.FS, proc string) []string {
	pids, err := os.ReadFile(filepath.Join(cgroups.Path(serviceCgroup), "cgroup.procs"))
	if err != nil {
		return nil
	}
	for _, pid := range strings.Fields(string(pids)) {
		data, err := os.ReadFile(filepath.Join(proc, pid, "cmdline"))
		args := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
		if err == nil && len(args) > 1 && args[1] == "run" {
			return args
		}
	}
	return nil
}
