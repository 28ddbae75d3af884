package cluster

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// Facts holds what the labels and the readiness follow from.
type Facts struct {
	// Section is the digest of the sections in force; empty if it is not known.
	Section string
	// Hangs is an error if a part of the program does.
	Hangs error
	// Refused is the error of a configuration that is not followed, and says what is.
	Refused error
	// Inactive lists the partitions that are switched on and have no cgroup.
	Inactive []partition.Name
	// Passed means that a reconcile of the pods has ended.
	Passed bool
	// Unready is an error if pods cannot be placed, for another reason than Refused.
	Unready error
	// Misplaced counts the pods that are not where they belong.
	Misplaced int
}

// The reasons of SystemPartitionReady. They never change, because programs select by them.
const (
	reasonActive    = "PartitionsActive"
	reasonHangs     = "MonitorHangs"
	reasonRefused   = "ConfigurationRefused"
	reasonInactive  = "SliceNotActive"
	reasonStarting  = "FirstPassPending"
	reasonUnready   = "PodsNotManaged"
	reasonMisplaced = "PodsMisplaced"
	reasonStopping  = "NodeStopping"
)

// maxText bounds the text of an error in a message.
const maxText = 500

// judge returns the condition that follows from facts, without its times. False means that
// something is not as configured, and Unknown that it cannot be seen.
func judge(f Facts) v1.NodeCondition {
	switch {
	case f.Hangs != nil:
		return condition(v1.ConditionUnknown, reasonHangs,
			"a part of partition-monitor hangs: "+textOf(f.Hangs))
	case f.Refused != nil:
		return condition(v1.ConditionFalse, reasonRefused, textOf(f.Refused))
	case len(f.Inactive) > 0:
		names := make([]string, 0, len(f.Inactive))
		for _, name := range f.Inactive {
			names = append(names, string(name))
		}
		return condition(v1.ConditionFalse, reasonInactive, "not active: partition "+strings.Join(names, ", "))
	case !f.Passed:
		message := "the first reconcile of the pods has not ended"
		if f.Unready != nil {
			message += ": " + textOf(f.Unready)
		}
		return condition(v1.ConditionUnknown, reasonStarting, message)
	case f.Unready != nil:
		return condition(v1.ConditionUnknown, reasonUnready,
			"pods cannot be placed at the moment: "+textOf(f.Unready))
	case f.Misplaced > 0:
		return condition(v1.ConditionFalse, reasonMisplaced,
			fmt.Sprintf("pods that are not where they belong: %d; partition-monitor status on the node lists them", f.Misplaced))
	}
	return condition(v1.ConditionTrue, reasonActive, "all partitions are active, and all pods are in their place")
}

func condition(status v1.ConditionStatus, reason, message string) v1.NodeCondition {
	return v1.NodeCondition{Type: kubeapi.Ready, Status: status, Reason: reason, Message: message}
}

// textOf returns the text of an error, which may have several lines, on one.
func textOf(err error) string { return text.Record(text.Terminal(err.Error()), maxText) }
