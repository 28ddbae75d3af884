package daemon

import (
	"context"
	"strings"

	"node-partition.io/node-partition/internal/cluster"
	"node-partition.io/node-partition/internal/kubeapi"
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

// The messages of our events about kills in the system partition. They hold no number, so that
// equal faults are counted in one event.
const (
	killedPod = "the kernel has killed processes of this pod at the memory limit of the system partition: eviction came too late, " +
		"or had no candidate"
	killedUnknown = "the kernel has killed processes of a pod that has ended, or is not known, at the memory limit of the system " +
		"partition: eviction came too late, or had no candidate"
)

// hasCluster reports whether the API server is spoken to at all.
func (m *monitor) hasCluster() bool { return m.options.Eviction.Kubeconfig != node.KubeconfigNone }

// newRecorder returns what records faults where operators of the cluster look; nil if nothing does.
func (m *monitor) newRecorder() *cluster.Recorder {
	if !m.options.Events || !m.hasCluster() {
		return nil
	}
	return cluster.NewRecorder(m.api, m.log, m.metrics.EventWritten)
}

// recorded returns what records the faults of a partition, nil if nothing does. pods lists the pods
// of the partition.
func (m *monitor) recorded(partition partition.Name, pods func() []evict.Pod) *clusterEvents {
	if m.recorder == nil {
		return nil
	}
	return &clusterEvents{
		recorder: m.recorder, partition: partition, pods: pods,
		kills:  cluster.Kills{Cgroups: m.options.Node.Cgroups, Partition: partition},
		killed: make(chan evict.KilledAt, 16),
	}
}

// clusterEvents records faults of a partition as events of the cluster.
type clusterEvents struct {
	recorder  *cluster.Recorder
	partition partition.Name
	pods      func() []evict.Pod
	kills     cluster.Kills
	killed    chan evict.KilledAt
}

// NoCandidate records that no pod can be evicted.
func (c *clusterEvents) NoCandidate(d evict.Decision) {
	c.recorder.Record(c.about(cluster.Occurrence{Reason: reasonNoCandidate, Message: noCandidateText(d)}))
}

// KernelKilled has the pods found whose processes were killed.
func (c *clusterEvents) KernelKilled(limit evict.KilledAt) {
	select {
	case c.killed <- limit:
	default: // a reading is pending, and finds these kills, too
	}
}

// about returns a fault of the system partition as the same fault of this one.
func (c *clusterEvents) about(f cluster.Occurrence) cluster.Occurrence {
	if !isFirst(c.partition) {
		f.Reason, f.Message = strings.TrimPrefix(f.Reason, "System"), textAbout(c.partition, f.Message)
	}
	return f
}

// attribute records kills at the partition's limit on the pods of the processes, until ctx ends.
func (c *clusterEvents) attribute(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case limit := <-c.killed:
			for _, fault := range c.killedSince(limit) {
				c.recorder.Record(c.about(fault))
			}
		}
	}
}

// killedSince returns the faults of the kills since the last call. There are none if the reading
// for an earlier call has found them already.
func (c *clusterEvents) killedSince(limit evict.KilledAt) []cluster.Occurrence {
	killed, unknown := c.kills.Since()
	if limit != evict.AtPartition || len(killed) == 0 && unknown == 0 {
		return nil
	}
	return killOccurrences(killed, c.pods())
}

// killOccurrences returns the faults of kills, by the cgroup of the pod, in pods of the partition.
// A kill in none of them is one on the node.
func killOccurrences(killed map[string]uint64, pods []evict.Pod) []cluster.Occurrence {
	var found []cluster.Occurrence
	for _, p := range pods {
		if killed[p.Cgroup] > 0 && !p.Unknown {
			pod := kubeapi.Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
			found = append(found, cluster.Occurrence{Pod: pod, Reason: reasonKilled, Message: killedPod})
		}
	}
	if len(found) == 0 {
		return []cluster.Occurrence{{Reason: reasonKilled, Message: killedUnknown}}
	}
	return found
}
