// Package samples keeps a history of the memory and CPU usage of a node in a folder of bounded
// size: a sample of each minute for a day, and the maxima of ten minutes for two weeks.
//
// Ring writes, and Read reads. They share no lock: files only grow and are removed whole, and each
// line has a checksum.
package samples

import "time"

// Sample holds the usage in a stretch of time.
type Sample struct {
	// Time is the end of the stretch, in whole seconds. Seconds is its length, without gaps.
	Time    time.Time `json:"time"`
	Seconds uint32    `json:"seconds"`
	// Boot distinguishes the boots of the node: the first eight digits of the kernel's boot ID.
	Boot string `json:"boot,omitempty"`
	// Partition is nil if there was no partition.
	Partition *Partition `json:"partition,omitempty"`
	// Groups lists the cgroups outside of kubepods.slice.
	Groups []Group `json:"groups,omitempty"`
	// Members lists pods of the partition, if they are asked for, at the end of the minute with the
	// highest UsedPeakBytes. Only samples of ten minutes have them.
	Members []Member `json:"members,omitempty"`
}

// Partition is the usage of the system partition. Amounts are in bytes.
type Partition struct {
	// UsedPeakBytes is the largest and UsedLowBytes the smallest usage as eviction counts it, without
	// page cache. PeakTime is the end of the minute with the largest.
	UsedPeakBytes uint64    `json:"usedPeakBytes"`
	UsedLowBytes  uint64    `json:"usedLowBytes"`
	PeakTime      time.Time `json:"peakTime"`
	// CurrentPeakBytes is the largest memory.current, with page cache.
	CurrentPeakBytes uint64 `json:"currentPeakBytes"`
	// LimitBytes is the limit in force, 0 for none. HardBytes and SoftBytes are the thresholds, 0 for
	// none.
	LimitBytes uint64 `json:"limitBytes,omitempty"`
	HardBytes  uint64 `json:"hardBytes,omitempty"`
	SoftBytes  uint64 `json:"softBytes,omitempty"`
	// PressurePercent is the part of the time in which a process waited for memory (some of PSI). Of
	// ten minutes it holds for the worst minute.
	PressurePercent float64 `json:"pressurePercent,omitempty"`
	// MilliCPU is the CPU time in thousandths of a CPU, of the busiest minute.
	MilliCPU uint32 `json:"milliCPU,omitempty"`
	// Evicted lists the pods that were evicted, as namespace/name.
	Evicted []string `json:"evicted,omitempty"`
	// KilledAtLimit counts the processes that the kernel killed at the partition's limit,
	// KilledElsewhere those at the limit of a pod or of the node.
	KilledAtLimit   uint32 `json:"killedAtLimit,omitempty"`
	KilledElsewhere uint32 `json:"killedElsewhere,omitempty"`
}

// Group is the usage of a cgroup.
type Group struct {
	// Name is the path of the cgroup, such as system.slice/kubelet.service.
	Name string `json:"name"`
	// Kube means that it is a service of the kubelet or of the container runtime. The other groups are
	// at the top of the hierarchy, and include such services.
	Kube bool `json:"kube,omitempty"`
	// WorkingSetBytes is usage without inactive page cache, by which the kubelet counts, at the end of
	// the minute: the largest of ten minutes.
	WorkingSetBytes uint64 `json:"workingSetBytes"`
	// MilliCPU is the CPU time in thousandths of a CPU, of the busiest minute.
	MilliCPU uint32 `json:"milliCPU"`
}

// Member is a pod of the partition.
type Member struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Containers changes when a container is started again.
	Containers string `json:"containers,omitempty"`
	// QoS, Priority, RequestBytes, Static and Estimated rank the pod for eviction, and may protect it
	// (evict.Pod).
	QoS          string `json:"qos,omitempty"`
	Priority     int32  `json:"priority,omitempty"`
	RequestBytes uint64 `json:"requestBytes,omitempty"`
	Static       bool   `json:"static,omitempty"`
	Estimated    bool   `json:"estimated,omitempty"`
	// WorkingSetBytes ranks it, and UsedBytes is the memory that comes back when it ends.
	WorkingSetBytes uint64 `json:"workingSetBytes"`
	UsedBytes       uint64 `json:"usedBytes"`
}

// urgent reports whether something happened that an operator will search for.
func (s *Sample) urgent() bool {
	p := s.Partition
	return p != nil && (len(p.Evicted) > 0 || p.KilledAtLimit > 0 || p.KilledElsewhere > 0)
}

// MaxMembers is the number of pods in a sample.
const MaxMembers = 32

// The other bounds of a sample.
const (
	maxGroups  = 20
	maxEvicted = 16
)

// bound cuts the lists of a sample to their largest elements. The services of the kubelet and of
// the runtime come before other groups.
func (s *Sample) bound() {
	s.Groups = important(s.Groups)
	s.Members = largest(s.Members)
	if p := s.Partition; p != nil {
		p.Evicted = p.Evicted[:min(len(p.Evicted), maxEvicted)]
	}
}
