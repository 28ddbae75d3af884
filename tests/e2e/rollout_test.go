//go:build node

package e2e

import "testing"

// still holds what a roll without a change leaves as it is.
type still struct{ files, reloads, monitor, services, processes string }

func (f *fleetNode) still(t *testing.T) still {
	t.Helper()
	return still{
		files: run(t, f.Node, written), reloads: run(t, f.Node, reloads), monitor: property(t, f.Node, monitorUnit, "MainPID"),
		services: run(t, f.Node, servicePIDs), processes: f.processes(t),
	}
}

// processes lists the processes of the pods that the node has by itself.
func (f *fleetNode) processes(t *testing.T) string {
	t.Helper()
	return run(t, f.Node, "cat $(find "+cgroupRoot+" -path '*kubepods*system*' -name cgroup.procs) | sort -n | xargs")
}
