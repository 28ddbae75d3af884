package recommend

import (
	"cmp"
	"slices"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/output"
	"nodepartition/internal/samples"
)

// farAbove is the part of a limit from which on page cache beside it is worth a warning.
const farAbove = 1.5

// warnAboutCache warns of page cache that the limit leaves no room for. A history of an earlier
// version has no figure for the part of it that is in use.
func (r *Recommendation) warnAboutCache(list []samples.Sample) {
	most := slices.MaxFunc(list, func(a, b samples.Sample) int {
		return cmp.Compare(a.Partition.CurrentPeakBytes, b.Partition.CurrentPeakBytes)
	}).Partition
	if float64(most.CurrentPeakBytes) < farAbove*float64(r.MemoryLimit.Bytes) {
		return
	}
	used := "the history does not show how much of it is in use"
	if set, _ := largestWorkingSet(list, nil); set > 0 {
		used = bytesize.Text(set) + " were in use"
	}
	r.warn("the partition had up to %s with page cache, at %s, and the limit is %s: %s; after try, compare the pressure in the history",
		bytesize.Text(most.CurrentPeakBytes), output.Time(most.PeakTime), bytesize.Text(r.MemoryLimit.Bytes), used)
}

// warnAboutDensity warns of figures for kubeReserved that were measured with few pods: kubelet and
// runtime use more with each.
func (r *Recommendation) warnAboutDensity() {
	if h := r.History; r.KubeReserved != nil && h.Pods > 0 && h.MaxPods > 0 && int64(h.Pods)*2 < h.MaxPods {
		r.warn("the node ran at most %d pods, and maxPods is %d: kubeReserved is for so few, and kubelet and runtime use more with each; "+
			"measure again with more, or lower maxPods", h.Pods, h.MaxPods)
	}
}
