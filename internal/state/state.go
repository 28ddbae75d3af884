package state

import (
	"time"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/internal/trialend"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// Status is the output of partition-monitor status. Its JSON is for scripts: from 0.1.0 on,
// versions add fields and do not change them.
type Status struct {
	// Partitions lists the active partitions. It is empty, and not absent, if there is none.
	Partitions []Partition `json:"partitions"`
	// Problem is the reason why the configuration is not applied, or why there is no partition, and
	// what could not be read.
	Problem string `json:"problem,omitempty"`
	// Trial is absent if none is running.
	Trial *Trial `json:"trial,omitempty"`
	// Service is "ready", or the reason why the service is not.
	Service string `json:"service"`
	// PodsUnknown is the reason why the pods are missing, as if the node had none: the container
	// runtime does not answer. It is absent if they are known.
	PodsUnknown string `json:"podsUnknown,omitempty"`
	report.Report
}

// Partition is an active partition. Amounts are in bytes.
type Partition struct {
	Name  partition.Name `json:"name"`
	Slice string         `json:"slice"`
	// Types lists the workload types whose pods are members.
	Types       []string `json:"types,omitempty"`
	Namespaces  []string `json:"namespaces"`
	MemoryBytes uint64   `json:"memoryBytes"`
	// LimitBytes is absent without a limit. LentBytes is the part of it that the node lends beyond
	// memoryLimit.
	LimitBytes *uint64 `json:"limitBytes,omitempty"`
	LentBytes  uint64  `json:"lentBytes,omitempty"`
	// SwapBytes is in addition to MemoryBytes, and has no part in evictions.
	SwapBytes uint64 `json:"swapBytes,omitempty"`
	// MinBytes and LowBytes are its protected memory, memory.min and memory.low.
	MinBytes uint64 `json:"minBytes,omitempty"`
	LowBytes uint64 `json:"lowBytes,omitempty"`
	CPUs     string `json:"cpuset,omitempty"`
	// Exclusive means that no other pod runs on CPUs.
	Exclusive bool   `json:"exclusive,omitempty"`
	CPUWeight uint64 `json:"cpuWeight"`
	// UsedBytes is the usage as eviction counts it: memory that the kernel cannot reclaim. Page cache
	// and half of the reclaimable slabs are left out. A memory limit needs room for it.
	UsedBytes uint64 `json:"usedBytes"`
	// UsedPeakBytes is the largest UsedBytes of the last five minutes, by the readings of the service.
	// It is absent if the service does not answer.
	UsedPeakBytes uint64 `json:"usedPeakBytes,omitempty"`
	// LastDay is what was used in the last day, nil if nothing was measured.
	LastDay *sizefile.Day `json:"lastDay,omitempty"`
	// Eviction is nil if its state could not be read.
	Eviction *Eviction `json:"eviction,omitempty"`
}

// Eviction is the state of evictions in a partition. Amounts are in bytes.
type Eviction struct {
	// Mode is on, off or dry-run.
	Mode string `json:"mode"`
	// AvailableBytes is the memory left below the limit. Page cache does not count as used.
	// WorkingSetBytes is the working set as the kubelet would count it.
	AvailableBytes  uint64 `json:"availableBytes"`
	WorkingSetBytes uint64 `json:"workingSetBytes"`
	// OwnerlessBytes is the memory that belongs to no pod that runs in the partition
	// (evict.Ownerless).
	OwnerlessBytes uint64 `json:"ownerlessBytes"`
	// NoLimit means that the partition has no memory limit: AvailableBytes is 0, and no pod is
	// evicted.
	NoLimit bool `json:"noLimit,omitempty"`
	// HardBytes and SoftBytes are the thresholds, 0 for none; SoftGrace is in nanoseconds.
	HardBytes uint64        `json:"hardBytes"`
	SoftBytes uint64        `json:"softBytes"`
	SoftGrace time.Duration `json:"softGrace"`
	// Crossed is the threshold that is crossed now.
	Crossed evict.Threshold `json:"crossed,omitempty"`
	// Estimated means that requests and priorities are approximations, because the kubelet serves no
	// Pods API.
	Estimated bool `json:"estimated"`
	// Order lists the pods of the partition in eviction order.
	Order []Candidate `json:"order"`
	// Open lists the evictions in progress, and Last those that have ended, the newest last.
	Open []evict.Eviction `json:"open"`
	Last []evict.Eviction `json:"last"`
}

// Candidate is a pod of the partition, with the values that rank it. Skip is the reason why it is
// not a candidate.
type Candidate struct {
	Namespace       string     `json:"namespace"`
	Name            string     `json:"name"`
	UID             string     `json:"uid"`
	Priority        int32      `json:"priority"`
	WorkingSetBytes uint64     `json:"workingSetBytes"`
	RequestBytes    uint64     `json:"requestBytes"`
	Estimated       bool       `json:"estimated"`
	Skip            evict.Skip `json:"skip,omitempty"`
}

// Trial is a running trial: the content of trialend.AboutFile.
type Trial struct {
	// From is the path of the file that is tried.
	From string `json:"from"`
	// Until is the time of End by the present clock, for people.
	Until time.Time `json:"until"`
	// End is the time at which the trial ends. It is zero in a description that cannot be read.
	End trialend.Moment `json:"end,omitzero"`
	// Override is a digest of the override when the trial began, empty if there was none.
	Override string `json:"override,omitempty"`
}

// Late returns for how long the trial has been over.
func (t *Trial) Late() time.Duration { return time.Since(t.Until) }
