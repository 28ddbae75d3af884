package podmove

import (
	"time"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

const (
	// leftOverAge is the time after which an empty scope counts as left over: systemd creates a
	// scope before its process is in it.
	leftOverAge = 5 * time.Second
	// outlivedAge is the time for which the runtime and the kubelet have to know nothing of a scope
	// before its processes count as forgotten. The kubelet looks for pods that it does not know every
	// two seconds (housekeepingPeriod, pkg/kubelet/kubelet.go).
	outlivedAge = time.Minute
	// endAgain is the time until a scope that is still there is ended again: a process in the kernel
	// ends later.
	endAgain = time.Minute
	// outlivedReminder is the time until processes that are left alone are due again.
	outlivedReminder = time.Hour
)

// forgotten holds when scopes are to be ended that nobody else ends: they are in a slice of the
// partition whose pod neither the runtime nor the kubelet reports, and of which the kubelet has no
// slice, or a live move has made them, and the runtime reports no such container. In its own slices
// the kubelet kills such processes (tryKillingCgroupProcesses,
// pkg/kubelet/cm/pod_container_manager_linux.go, 1.37) and stops such scopes together with the
// slice (podContainerManagerImpl.Destroy). It does not look for pods in the partition.
//
// A scope is empty if the creation of its container was cut short: the kubelet ended while the
// runtime was creating the container, runc was killed between creating the scope and starting the
// process, and systemd keeps the empty scope as active (seen with kubelet 1.37.0, containerd 2.3.7,
// runc 1.3, systemd 257). A slice of the partition would keep it until the next boot.
type forgotten struct {
	// answers means that the kubelet has reported its pods in the last reconcile.
	answers bool
	due     map[forgottenScope]time.Time
}

// forgottenScope is a scope that is empty or not. It is due by the time for which it has been so.
type forgottenScope struct {
	unit      string
	populated bool
}

// next returns the value for the next reconcile. A kubelet that did not report its pods in the last
// reconcile and does now, or the other way round, has to be asked for the whole time again.
func (f *forgotten) next(answers bool) forgotten {
	if answers != f.answers {
		//guard: a kubelet that was away begins the minute again
		f.due = nil
	}
	return forgotten{answers: answers, due: map[forgottenScope]time.Time{}}
}

// addForgotten adds to a pod the scopes in one of its slices that are forgotten, and records them
// in r.next. known means that the kubelet or the runtime has the pod. The kubelet looks for
// processes in its own slice only: a scope of a live move counts by the runtime's word.
func (r *reading) addForgotten(pod *Pod, slice PodCgroup, known bool) {
	next, now := r.next, time.Now()
	for _, unit := range slice.Units {
		id, live := partition.ContainerID(unit), partition.IsLiveMoved(unit)
		if id == "" || r.listed[id] || known && !live {
			continue
		}
		populated, err := r.Cgroups.Populated(partition.CgroupPath(slice.Slice) + "/" + unit)
		if err != nil {
			continue // gone by now, or not readable
		}
		scope := forgottenScope{unit, populated}
		at, seen := r.forgotten.due[scope]
		due := seen && !now.Before(at)
		if due {
			at = now.Add(endAgain)
		}
		if populated {
			//guard: processes of a pod are not killed while the kubelet does not report its pods
			found := report.Outlived{Slice: slice.Slice, Scope: unit, Kill: next.answers || live, Due: due}
			pod.Outlived = append(pod.Outlived, found)
			switch {
			case !seen:
				at = now.Add(outlivedAge)
			case due && !found.Kill:
				at = now.Add(outlivedReminder)
			}
		} else {
			if !seen {
				//guard: an empty scope may be starting
				at = now.Add(leftOverAge)
			}
			if due {
				pod.Orphans = append(pod.Orphans, unit)
			}
			pod.Settling = pod.Settling || at.Sub(now) <= leftOverAge
		}
		next.due[scope] = at
	}
}
