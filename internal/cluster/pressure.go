package cluster

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// The reasons of the condition SystemPartitionPressure.
const (
	reasonLow         = "MemoryBelowThreshold"
	reasonNoCandidate = "NoEvictionCandidate"
	reasonEnough      = "MemoryAvailable"
	reasonUnread      = "MemoryNotRead"
)

const (
	// calm is the time without pressure before the condition is False again, as for the kubelet's
	// MemoryPressure (evictionPressureTransitionPeriod).
	calm = 5 * time.Minute
	// stale is the age of a poll of the memory from which the state is unknown.
	stale = time.Minute
)

// judgePressure returns the condition that follows from the last poll of a partition's memory, and
// from the time of the last pressure before it. Its times are left out.
func judgePressure(partition partition.Name, report evict.Report, pressed, now time.Time) v1.NodeCondition {
	name := "partition " + string(partition)
	c := v1.NodeCondition{Type: kubeapi.Pressure}
	switch {
	case report.NoCandidate:
		c.Status, c.Reason = v1.ConditionTrue, reasonNoCandidate
		c.Message = "the memory of " + name + " is low, and no pod of it can be evicted: the kernel kills at the limit"
	case isLow(report), !pressed.IsZero() && now.Sub(pressed) < calm:
		c.Status, c.Reason = v1.ConditionTrue, reasonLow
		c.Message = "less memory than the eviction threshold is available in " + name + ", or was in the last five minutes"
	case report.Time.IsZero(), now.Sub(report.Time) > stale:
		c.Status, c.Reason = v1.ConditionUnknown, reasonUnread
		c.Message = "the memory of " + name + " was not read for a minute"
	default:
		c.Status, c.Reason = v1.ConditionFalse, reasonEnough
		c.Message = name + " has more memory available than the eviction threshold"
	}
	return c
}

// isLow reports whether less than the threshold is available, whether eviction is on or off.
func isLow(report evict.Report) bool { return report.Crossed != "" || report.Available < report.Hard }
