package podmove

import (
	"time"

	"node-partition.io/node-partition/internal/partition"
)

const (
	// leftOverAge is the time after which an empty scope counts as left over: systemd creates a
	// scope before its process is in it.
	leftOverAge = 5 * time.Second
	// leftOverRetry is the time until a scope that is still there is ended again.
	leftOverRetry = time.Minute
)

// leftOvers finds the scopes of containers whose creation was cut short: the kubelet ended while
// the runtime was creating the container, runc was killed between creating the scope and starting
// the process, and systemd keeps the empty scope as active (seen with kubelet 1.37.0, containerd
// 2.3.7, runc 1.3, systemd 257). In its own slices the kubelet stops such a scope together with the
// slice (podContainerManagerImpl.Destroy, pkg/kubelet/cm/pod_container_manager_linux.go). A slice
// of the partition would keep it until the next boot.
//
// It has the time at which each empty scope is to be ended.
type leftOvers map[string]time.Time

// find returns the scopes among units that are to be ended now, and whether some are too young. It
// adds all of them to next, for the next reconcile. The units are in a slice of the partition whose
// pod neither the runtime nor the kubelet reports, and of which the kubelet has no slice. live
// reports whether a scope has a process, or the runtime reports its container.
func (l leftOvers) find(
	units []string, live func(scope, id string) bool, now time.Time, next leftOvers,
) (ended []string, young bool) {
	for _, unit := range units {
		if id := partition.ContainerID(unit); id == "" || live(unit, id) {
			continue
		}
		at, seen := l[unit]
		switch {
		case !seen:
			//guard: an empty scope may be starting
			at, young = now.Add(leftOverAge), true
		case !now.Before(at):
			ended, at = append(ended, unit), now.Add(leftOverRetry)
		default:
			young = young || at.Sub(now) <= leftOverAge
		}
		next[unit] = at
	}
	return ended, young
}
