package podmove

import (
	"maps"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/partition"
)

// CPURecord holds what the monitor has to know of the CPU time that it has given to members by
// annotation.
type CPURecord struct {
	// Pods holds the CPU time of pods as it was known last, by UID.
	Pods map[string]PodTime `json:"pods"`
	// Scopes holds the scopes of containers that have been changed, with their values.
	Scopes map[string]CPUTime `json:"scopes"`
}

// PodTime is the CPU time of a member as the kubelet has reported it. Both requests make its
// weight.
type PodTime struct {
	// PodCPU has its requests of the resource of its type.
	admission.PodCPU
	// MilliCPU is its other request of CPU, in thousandths. It is 0 for none.
	MilliCPU int64 `json:"milliCPU,omitempty"`
}

// counts returns the CPU time that a pod has by the resource of a type, and whether it has any:
// what the kubelet reports of the type, or else what was known last.
func counts(workload string, reported, last PodTime) (PodTime, bool) {
	//guard: what the kubelet reports of another type does not count
	if reported.Type == workload {
		last = reported
	}
	//guard: the figure of another type does not count
	//guard: nothing of the resource changes no limit
	return last, last.Type == workload && last.Request > 0
}

func newCPURecord() CPURecord {
	return CPURecord{Pods: map[string]PodTime{}, Scopes: map[string]CPUTime{}}
}

// byContainer returns the names of the scopes by the ID of their container.
func (r CPURecord) byContainer() map[string]string {
	names := make(map[string]string, len(r.Scopes))
	for name := range r.Scopes {
		names[partition.ContainerID(name)] = name
	}
	return names
}

// until returns the record while a reconcile is carried out that ends with next. A scope that
// changes keeps the values of an earlier reconcile: if systemd does not answer, they are still
// there, and the next reconcile has to know them as ours. It knows the new ones in any case,
// because it wants them.
func (r CPURecord) until(next CPURecord, changes []ScopeSpec) CPURecord {
	both := CPURecord{Pods: next.Pods, Scopes: maps.Clone(next.Scopes)}
	names := r.byContainer() // a live move has given the scope another name
	for _, c := range changes {
		//guard: a value of ours is known when another one could not be set
		//guard: a value of ours is known when another one could not be set after a live move
		if had := r.Scopes[names[partition.ContainerID(c.Name)]]; had != (CPUTime{}) {
			both.Scopes[c.Name] = had
		}
	}
	return both
}
