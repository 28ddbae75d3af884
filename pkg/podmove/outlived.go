package podmove

import (
	"time"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

const (
	// outlivedAge is the time for which the runtime and the kubelet have to know nothing of a scope
	// before its processes count as forgotten. The kubelet looks for pods that it does not know every
	// two seconds (housekeepingPeriod, pkg/kubelet/kubelet.go).
	outlivedAge = time.Minute
	// outlivedRetry is the time until they are killed again: a process in the kernel ends later.
	outlivedRetry = time.Minute
	// outlivedReminder is the time until processes that are left alone are due again.
	outlivedReminder = time.Hour
)

// outlived finds the scopes that are Outlived. The kubelet kills the processes that it finds in its
// own slice of a pod that is gone (tryKillingCgroupProcesses,
// pkg/kubelet/cm/pod_container_manager_linux.go, 1.37). It does not look for pods in the partition.
type outlived struct {
	// answers means that the kubelet has reported its pods in the last reconcile.
	answers bool
	// due has the time at which each scope is due.
	due map[string]time.Time
}

// next returns the value for the next reconcile. A kubelet that did not report its pods in the last
// reconcile and does now, or the other way round, has to be asked for outlivedAge again.
func (o *outlived) next(answers bool) outlived {
	if answers != o.answers {
		//guard: a kubelet that was away begins the minute again
		o.due = nil
	}
	return outlived{answers: answers, due: map[string]time.Time{}}
}

// find returns the scopes of containers among the units of a slice that unclaimed reports, and
// records them in next. The pod of the slice is known neither to the runtime nor to the kubelet.
// Scopes of live moves are left out: they are ended at once.
func (o *outlived) find(
	slice PodCgroup, unclaimed func(scope, id string) bool, now time.Time, next outlived,
) []report.Outlived {
	var found []report.Outlived
	for _, unit := range slice.Units {
		if id := partition.ContainerID(unit); id == "" || partition.IsLiveMoved(unit) || !unclaimed(unit, id) {
			continue
		}
		//guard: processes of a pod are not killed while the kubelet does not report its pods
		scope := report.Outlived{Slice: slice.Slice, Scope: unit, Kill: next.answers}
		at, seen := o.due[unit]
		switch {
		case !seen:
			at = now.Add(outlivedAge)
		case !now.Before(at):
			scope.Due, at = true, now.Add(outlivedReminder)
			if scope.Kill {
				at = now.Add(outlivedRetry)
			}
		}
		next.due[unit] = at
		found = append(found, scope)
	}
	return found
}
