package node

import (
	"strings"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
)

// maxArgs bounds a command line, in bytes: ARG_MAX without large strings.
const maxArgs = 128 << 10

// ServiceArgs returns the command line of the running service of n, nil if it does not run.
func ServiceArgs(n host.Node) []string {
	pids, err := n.Cgroups.ReadFile(partition.MonitorCgroup, "cgroup.procs")
	if err != nil {
		return nil
	}
	for _, pid := range strings.Fields(string(pids)) {
		data, err := n.Root.ReadFile("/proc/"+pid+"/cmdline", maxArgs)
		args := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
		if err == nil && len(args) > 1 && args[1] == "run" {
			return args
		}
	}
	return nil
}
