// Package samples keeps a history of the memory and CPU usage of a node in a folder of bounded
// size: a sample of each minute for a day, and the maxima of ten minutes for two weeks.
//
// Ring writes, and Read reads. They share no lock: files only grow and are removed whole, and each
// line has a checksum.
package samples

import (
	"time"

	"nodepartition/internal/unitname"
)

// Sample holds the usage in a stretch of time.
type Sample struct {
	// Time is the end of the stretch, in whole seconds. Seconds is its length, without gaps.
	Time    time.Time `json:"time"`
	Seconds uint32    `json:"seconds"`
	// Boot distinguishes the boots of the node: the first eight digits of the kernel's boot ID.
	Boot string `json:"boot,omitempty"`
	// Up is the time since the boot at Time, in seconds, by CLOCK_BOOTTIME, which cannot be set. 0
	// means that it is not known.
	Up uint64 `json:"up,omitempty"`
	// Node is nil where it is not known.
	Node *Node `json:"node,omitempty"`
	// About is the partition that Partition and Members are of; "" means the system partition. History
	// has samples about another one.
	About unitname.PartitionName `json:"-"`
	// Partition is the usage of that partition, nil if there was none. In JSON it is an element of the
	// list partitions, with its Members.
	Partition *Usage `json:"-"`
	// Groups lists the cgroups outside of kubepods.slice.
	Groups []Group `json:"groups,omitempty"`
	// Members lists pods of the partition, if they are asked for, at the end of the minute with the
	// highest UsedPeakBytes. Only samples of ten minutes have them.
	Members []Member `json:"-"`
	// Others lists the other partitions of the node. In JSON they are elements of the list partitions.
	Others []Other `json:"-"`
}

// Other is a partition of a sample that the sample is not about.
type Other struct {
	Name unitname.PartitionName
	Usage
	// Members lists its pods, as Sample.Members.
	Members []Member
}

// Node has the size of the node, and the number of its pods.
type Node struct {
	// CPUs counts the CPUs that are online, and MemoryBytes is MemTotal: what the kubelet reports as
	// the capacity of the node. PageBytes is the size of a page.
	CPUs        int    `json:"cpus"`
	MemoryBytes uint64 `json:"memoryBytes"`
	PageBytes   int    `json:"pageBytes,omitempty"`
	// Pods counts the pods with a running sandbox or container, members and others: the most of ten
	// minutes.
	Pods int `json:"pods"`
}

// Usage is the usage of a partition. Amounts are in bytes.
type Usage struct {
	// UsedPeakBytes is the largest and UsedLowBytes the smallest usage as eviction counts it, without
	// page cache. PeakTime is the end of the minute with the largest.
	UsedPeakBytes uint64    `json:"usedPeakBytes"`
	UsedLowBytes  uint64    `json:"usedLowBytes"`
	PeakTime      time.Time `json:"peakTime"`
	// CurrentPeakBytes is the largest memory.current, with page cache.
	CurrentPeakBytes uint64 `json:"currentPeakBytes"`
	// Cache and Pods are nil where they are not known, as in a minute without an answer of the
	// kubelet.
	Cache *Cache `json:"cache,omitempty"`
	Pods  *Pods  `json:"pods,omitempty"`
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
	// MembersLeft counts pods that are not among the members of the sample, because the other
	// partitions of the node share the room for them.
	MembersLeft int `json:"membersLeft,omitempty"`
}

// happened reports whether something happened that an operator will search for.
func (u *Usage) happened() bool {
	return u != nil && (len(u.Evicted) > 0 || u.KilledAtLimit > 0 || u.KilledElsewhere > 0)
}

// Cache tells which part of the page cache is in use, at the end of the minute: the largest of ten
// minutes. Amounts are in bytes, from memory.stat of the partition.
type Cache struct {
	// WorkingSetBytes is usage without inactive page cache, by which the kubelet counts.
	WorkingSetBytes uint64 `json:"workingSetBytes"`
	// FileMappedBytes is page cache that processes have mapped, and InactiveFileBytes what the kernel
	// reclaims first.
	FileMappedBytes   uint64 `json:"fileMappedBytes"`
	InactiveFileBytes uint64 `json:"inactiveFileBytes"`
}

// Pods counts the members of the partition, at the end of the minute. Of ten minutes it has the
// largest of each.
type Pods struct {
	// Members counts all of them, and RequestBytes is the sum of their memory requests.
	Members      int    `json:"members"`
	RequestBytes uint64 `json:"requestBytes"`
	// Waiting counts those that have containers outside of the partition: they wait for their next
	// start, or for their turn to be moved.
	Waiting int `json:"waiting,omitempty"`
	// WaitingUsedBytes and WaitingWorkingSetBytes are their usage outside, counted as UsedPeakBytes
	// and as Cache.WorkingSetBytes. WaitingRequestBytes is their part of RequestBytes.
	WaitingUsedBytes       uint64 `json:"waitingUsedBytes,omitempty"`
	WaitingWorkingSetBytes uint64 `json:"waitingWorkingSetBytes,omitempty"`
	WaitingRequestBytes    uint64 `json:"waitingRequestBytes,omitempty"`
	// LeftBytes is memory of members in the partition that live moves left charged outside.
	LeftBytes uint64 `json:"leftBytes,omitempty"`
	// AllUsedBytes is the largest sum of UsedPeakBytes, WaitingUsedBytes and LeftBytes in a minute,
	// and AllWorkingSetBytes the largest sum of the working sets: what the partition uses with all its
	// members.
	AllUsedBytes       uint64 `json:"allUsedBytes"`
	AllWorkingSetBytes uint64 `json:"allWorkingSetBytes"`
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

// urgent reports whether something happened in a partition that an operator will search for.
func (s *Sample) urgent() bool {
	for i := range s.Others {
		if s.Others[i].happened() {
			return true
		}
	}
	return s.Partition.happened()
}
