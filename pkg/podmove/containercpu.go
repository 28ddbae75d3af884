package podmove

import (
	"cmp"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// CPUTime is the CPU time of a container's scope, in the units of systemd's properties.
type CPUTime struct {
	// Weight is 1 to 10000. It is 0 for a scope that has the kubelet's values again.
	Weight uint64 `json:"weight,omitempty"`
	// QuotaPerSec is in microseconds per second. At 0 it is as the runtime or another program has set
	// it. A record has the quota of a limit or 0.
	QuotaPerSec uint64 `json:"quotaPerSec,omitempty"`
}

// is reports whether a cgroup has this CPU time.
func (t CPUTime) is(present cgroups.CPU) bool {
	return t.Weight == present.Weight && (t.QuotaPerSec == 0 || isQuota(t.QuotaPerSec, present))
}

// isQuota reports whether a cgroup has a quota, in microseconds per second.
func isQuota(perSec uint64, present cgroups.CPU) bool {
	if perSec == cgroups.Unlimited || present.Quota == cgroups.Unlimited {
		return perSec == present.Quota
	}
	//guard: a quota is compared by its period
	return perSec*present.Period/1_000_000 == present.Quota
}

// ScopeSpec is the scope of a container, and its CPU time.
type ScopeSpec struct {
	Name string
	CPU  CPUTime
}

// containerCPU decides about the CPU time of the containers of a pod. Their cgroups are the
// runtime's, which writes the same two values at creation and at a resize. NRI could set them at
// creation, but runtimes refuse a container if another plugin sets the same field.
func (d *Decision) containerCPU(s Snapshot, pod *Pod, place partition.Place) {
	//guard: what no kubelet has said is not recorded
	asked, ok := s.reported(pod, place)
	if ok {
		asked.Containers, asked.Flaw = nil, ""
		d.CPU.Pods[pod.UID] = asked
	}
	// What each container requests is known by annotations, or as long as the kubelet reports it.
	// Nothing but the kubelet changes a scope that has ours.
	byAnnotation := s.isAnnotated(pod, place)
	//guard: without the kubelet no scope changes
	known := byAnnotation || pod.Kubelet != nil && !pod.Kubelet.Ends() ||
		pod.Kubelet == nil && pod.Annotated.Type != ""
	//guard: a pod that is moved is left alone
	known = known && s.Moving != pod.UID
	slice := pod.Cgroup(place.Partition).Slice
	for i := range pod.Containers {
		c := &pod.Containers[i]
		had := d.keepCPU(s, c)
		if !known || !c.Running || c.Foreign || c.CPU.Weight == 0 || c.AlsoUnit != "" {
			continue
		}
		switch {
		//guard: a container outside of the partition keeps the kubelet's values
		case (byAnnotation || ok && pod.reportsRequested(place)) && c.asked.Request > 0 && c.Slice == slice:
			d.giveCPU(s, c, had)
		case ok && !pod.reportsRequested(place):
			// What each container requests is not known.
		case had != nil && *had != CPUTime{}:
			d.takeCPU(s, c, *had)
		}
	}
}

// giveCPU decides about the scope of a container that requests the resource. had holds the values
// of an earlier reconcile, nil for none.
func (d *Decision) giveCPU(s Snapshot, c *Container, had *CPUTime) {
	before := CPUTime{}
	if had != nil {
		before = *had
	}
	want := CPUTime{Weight: weightOf(s.Runtime, c.MilliCPU, c.asked.Request)}
	want.QuotaPerSec = c.quota(before)
	set := want
	if want.QuotaPerSec == 0 && c.hasQuotaOf(before) {
		set.QuotaPerSec = cgroups.Unlimited
	}
	switch {
	//guard: a scope that has its CPU time is not set again
	case set.is(c.CPU):
	//guard: a weight that another program has set stays
	case before.Weight == c.CPU.Weight || c.hasKubeletWeight():
		d.Scopes = append(d.Scopes, ScopeSpec{c.Unit, set})
	default:
		return // another program has set it, and would set it again
	}
	d.CPU.Scopes[c.Unit] = want
}

// quota returns the quota of the limit that an annotation sets, 0 for none. The quota of another
// program stays: it is neither of an earlier reconcile nor of this limit, and the kubelet gives a
// container without a CPU limit none.
func (c *Container) quota(before CPUTime) uint64 {
	if c.MilliLimit > 0 || c.asked.Limit <= 0 {
		return 0
	}
	quota := quotaPerSec(c.asked.Limit, c.CPU.Period)
	//guard: a quota that another program has set is not replaced
	if c.CPU.Quota == cgroups.Unlimited || c.hasQuotaOf(before) || isQuota(quota, c.CPU) {
		return quota
	}
	return 0
}

// hasQuotaOf reports whether a container has the quota that an earlier reconcile has set, and no
// limit of its spec, whose quota the runtime sets.
func (c *Container) hasQuotaOf(before CPUTime) bool {
	//guard: a quota that another program has set is not lifted
	//guard: a quota of a CPU limit is not lifted
	return c.MilliLimit == 0 && before.QuotaPerSec != 0 && isQuota(before.QuotaPerSec, c.CPU)
}

// takeCPU gives the scope of a container that had CPU time of the resource the values of the
// kubelet. A value that is not the one of an earlier reconcile stays: the runtime has written the
// kubelet's since, or another program its own.
func (d *Decision) takeCPU(s Snapshot, c *Container, had CPUTime) {
	want := CPUTime{Weight: c.CPU.Weight}
	//guard: a scope is given back only what the monitor has set
	if had.Weight == c.CPU.Weight {
		want.Weight = weightOf(s.Runtime, c.MilliCPU, 0)
	}
	if c.hasQuotaOf(had) {
		want.QuotaPerSec = cgroups.Unlimited
	}
	if !want.is(c.CPU) {
		d.Scopes = append(d.Scopes, ScopeSpec{c.Unit, want})
	}
	d.CPU.Scopes[c.Unit] = CPUTime{}
}

// weightOf returns the weight of a CPU request and of a request of the resource together.
func weightOf(f admission.WeightFormula, milli, cores int64) uint64 {
	return f.Weight(admission.SharesOfMilliCPU(admission.AddMilliCPU(milli, cores)))
}

// hasKubeletWeight reports whether a container has the weight of its CPU request, by either
// formula.
func (c *Container) hasKubeletWeight() bool {
	return c.CPU.Weight == weightOf(admission.LinearWeight, c.MilliCPU, 0) ||
		c.CPU.Weight == weightOf(admission.QuadraticWeight, c.MilliCPU, 0)
}

// runtimeFormula returns the formula by which the runtime has written the scopes of containers, as
// kubeletFormula does for the slices of pods. Containers with ours show nothing. Nor does one that
// does not run, because it has no weight.
func runtimeFormula(pods []Pod, present admission.WeightFormula) admission.WeightFormula {
	return shownByAll(present, func(yield func(milli int64, weight uint64) bool) {
		for i := range pods {
			for _, c := range pods[i].Containers {
				//guard: containers with our weight do not show the runtime's formula
				if c.asked.Request == 0 && !yield(c.MilliCPU, c.CPU.Weight) {
					return
				}
			}
		}
	})
}

// keepCPU keeps the record of a container that has not ended, and returns it; nil for none. A live
// move copies the CPU time to a scope of another name. A recorded container has been running.
func (d *Decision) keepCPU(s Snapshot, c *Container) *CPUTime {
	name, ok := s.recorded[c.ID]
	if !ok || c.Unit == "" && !c.Running {
		return nil
	}
	had := s.CPU.Scopes[name]
	d.CPU.Scopes[cmp.Or(c.Unit, name)] = had
	return &had
}
