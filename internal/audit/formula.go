package audit

import (
	"strconv"

	"nodepartition/internal/cpuweight"
	"nodepartition/internal/unitname"

	v1 "k8s.io/api/core/v1"
)

// weighed is a cgroup whose CPU shares are known.
type weighed struct {
	cgroup string
	shares uint64
}

// findFormulas finds the formulas of the kubelet and of the runtime by the weights that they have
// written. The majority decides, so that one wrong weight does not. Without any, and with as many
// of each, the kubelet counts as one with the linear formula: no release has another (1.37.0).
func (a *audit) findFormulas() {
	var slices, scopes []weighed
	if shares, ok := a.allocatableShares(); ok {
		slices = append(slices, weighed{kubepods, shares})
	}
	if shares, ok := a.burstableShares(); ok {
		slices = append(slices, weighed{burstable, shares})
	}
	for _, pod := range a.settled() {
		slices = append(slices, weighed{podSlice(pod), cpuweight.SharesOfMilliCPU(podResources(pod).milliCPU)})
		for _, c := range a.running(pod) {
			scopes = append(scopes, weighed{c.scope, c.shares})
		}
	}
	a.report.Formulas = Formulas{Kubelet: a.vote(slices), Runtime: a.vote(scopes)}
	a.formula = cpuweight.Linear
	if a.report.Formulas.Kubelet == cpuweight.Quadratic.Name {
		a.formula = cpuweight.Quadratic
	}
}

// vote returns the name of the formula that computes most of the weights. It returns the linear one
// if both compute as many, and "" if no weight follows from one formula alone.
func (a *audit) vote(list []weighed) string {
	linear, quadratic := 0, 0
	for _, w := range list {
		text := a.Cgroups[w.cgroup][cpuWeight]
		l, q := cpuweight.Linear.Weight(w.shares), cpuweight.Quadratic.Weight(w.shares)
		switch {
		case l == q:
		case text == strconv.FormatUint(l, 10):
			linear++
		case text == strconv.FormatUint(q, 10):
			quadratic++
		}
	}
	switch {
	case linear == 0 && quadratic == 0:
		return ""
	case quadratic > linear:
		return cpuweight.Quadratic.Name
	}
	return cpuweight.Linear.Name
}

// weight returns the value of cpu.weight that the kubelet gives to shares.
func (a *audit) weight(shares uint64) value { return count{cpuWeight, a.formula.Weight(shares)} }

// The slices of the classes.
var (
	burstable  = unitname.CgroupPath(unitname.QoSSlice(unitname.Default, v1.PodQOSBurstable))
	bestEffort = unitname.CgroupPath(unitname.QoSSlice(unitname.Default, v1.PodQOSBestEffort))
)

// podSlice returns the path of the slice that the kubelet has made for a pod.
func podSlice(pod *v1.Pod) string {
	return unitname.CgroupPath(unitname.PodSlice(unitname.Default, pod.Status.QOSClass, string(pod.UID)))
}
