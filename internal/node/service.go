package node

import (
	"os"
	"path/filepath"
	"strings"

	"nodepartition/internal/host"
	"nodepartition/internal/unitname"
)

// ServiceArgs returns the command line of the running service of n, nil if it does not run.
func ServiceArgs(n host.Node) []string {
	pids, err := os.ReadFile(filepath.Join(n.Cgroups.Path(unitname.MonitorCgroup), "cgroup.procs"))
	if err != nil {
		return nil
	}
	for _, pid := range strings.Fields(string(pids)) {
		data, err := os.ReadFile(filepath.Join(n.Proc, pid, "cmdline"))
		args := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
		if err == nil && len(args) > 1 && args[1] == "run" {
			return args
		}
	}
	return nil
}
