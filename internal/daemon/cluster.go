package daemon

import (
	"strings"

	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// The reasons of our events about the system partition. They never change, because programs select
// events by them. Those about another partition begin with Partition.
const (
	reasonKilled      = "SystemPartitionOOMKilling"
	reasonNoCandidate = "SystemPartitionNoEvictionCandidate"
	reasonInvalid     = "SystemPartitionConfigurationInvalid"
)

// killedText is the message of our event about kills in the system partition. It holds no number,
// so that equal faults are counted in one event.
const killedText = "the kernel has killed at the memory limit of the system partition: eviction came too late, or had no " +
	"candidate; the status of the pod has OOMKilled, and the kernel's log names the process"

// hasCluster reports whether the API server is spoken to at all.
func (m *monitor) hasCluster() bool { return m.options.Eviction.Kubeconfig != node.KubeconfigNone }

// newRecorder returns what records faults where operators of the cluster look; nil if nothing does.
func (m *monitor) newRecorder() *cluster.Recorder {
	if !m.options.Events || !m.hasCluster() {
		return nil
	}
	return cluster.NewRecorder(m.api, m.log, m.metrics.EventWritten)
}

// clusterEvents records faults of a partition as events of the cluster about the node.
type clusterEvents struct {
	recorder  *cluster.Recorder // nil if nothing records
	partition partition.Name
}

// NoCandidate records that no pod can be evicted.
func (c clusterEvents) NoCandidate(d evict.Decision) {
	c.record(reasonNoCandidate, noCandidateText(d))
}

// KernelKilled records kills at the partition's limit.
func (c clusterEvents) KernelKilled(limit evict.KilledAt) {
	if limit == evict.AtPartition {
		c.record(reasonKilled, killedText)
	}
}

// record records a fault of the system partition as the same fault of this one.
func (c clusterEvents) record(reason, message string) {
	if c.recorder == nil {
		return
	}
	if !isFirst(c.partition) {
		reason, message = strings.TrimPrefix(reason, "System"), textAbout(c.partition, message)
	}
	c.recorder.Record(cluster.Occurrence{Reason: reason, Message: message})
}
