package podmove

import (
	"strings"

	"nodepartition/pkg/slices"
)

// QoS is the quality-of-service class of a pod, as the kubelet spells it in a pod's status.
type QoS string

// The classes, v1.PodQOSClass of k8s.io/api.
const (
	Guaranteed QoS = "Guaranteed"
	Burstable  QoS = "Burstable"
	BestEffort QoS = "BestEffort"
)

// Partition is one of the two parts of a node's pods; it is the label "partition" of the KEP's metrics.
type Partition string

const (
	// System is the partition of this project, kubepods-system.slice.
	System Partition = "system"
	// Default is where the kubelet puts pods, kubepods.slice without the system partition.
	Default Partition = "default"
)

// podPrefix is what the names of the slices of pods of a class begin with, before the UID.
func podPrefix(p Partition, q QoS) string {
	name := "kubepods"
	if p == System {
		name += "-system"
	}
	switch q {
	case Burstable:
		name += "-burstable"
	case BestEffort:
		name += "-besteffort"
	case Guaranteed: // directly below its partition
	}
	return name + "-pod"
}

// PodSlice names the slice of a pod as the kubelet's systemd driver does: GetPodContainerName of pkg/kubelet/cm, with the
// dashes of the UID escaped to underscores (escapeSystemdCgroupName), because dashes nest slices.
func PodSlice(p Partition, q QoS, uid string) string {
	return podPrefix(p, q) + escapeUID(uid) + ".slice"
}

// escapeUID is a UID as it stands in the names of slices.
func escapeUID(uid string) string { return strings.ReplaceAll(uid, "-", "_") }

// ParsePodSlice is the inverse of PodSlice, but for the UID, which is returned with its dashes still escaped. It reports
// false for any other name.
func ParsePodSlice(slice string) (p Partition, q QoS, escapedUID string, ok bool) {
	name, ok := strings.CutSuffix(slice, ".slice")
	if !ok {
		return "", "", "", false
	}
	for _, p := range []Partition{System, Default} {
		for _, q := range []QoS{Guaranteed, Burstable, BestEffort} {
			if uid, ok := strings.CutPrefix(name, podPrefix(p, q)); ok && uid != "" && !strings.ContainsAny(uid, "-/") {
				return p, q, uid, true
			}
		}
	}
	return "", "", "", false
}

// parentSlice is the slice that the slices of pods of a class are in.
func parentSlice(p Partition, q QoS) string {
	switch {
	case p == System && q == Burstable:
		return slices.BurstableSlice
	case p == System && q == BestEffort:
		return slices.BestEffortSlice
	case p == System:
		return slices.SystemSlice
	case q == Burstable:
		return "kubepods-burstable.slice"
	case q == BestEffort:
		return "kubepods-besteffort.slice"
	}
	return "kubepods.slice"
}
