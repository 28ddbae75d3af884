package daemon

import (
	"context"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/faults"
	"nodepartition/internal/monitor/options"
	"nodepartition/pkg/evict"
)

// The reasons of our events. They never change, because programs select events by them.
const (
	reasonKilled      = "SystemPartitionOOMKilling"
	reasonNoCandidate = "SystemPartitionNoEvictionCandidate"
	reasonInvalid     = "SystemPartitionConfigurationInvalid"
)

// The messages of our events about kills. They hold no number, so that equal faults are counted in
// one event.
const (
	killedPod = "the kernel has killed processes of this pod at the memory limit of the system partition: eviction came too late, " +
		"or had no candidate"
	killedUnknown = "the kernel has killed processes of a pod that has ended, or is not known, at the memory limit of the system " +
		"partition: eviction came too late, or had no candidate"
)

// cluster records faults where operators of the cluster look. Its methods return at once. A nil
// cluster records nothing.
type cluster struct {
	recorder  *faults.Recorder  // nil without events
	condition *faults.Condition // nil without the condition
	kills     faults.Kills
	pods      func() []evict.Pod
	killed    chan evict.KilledAt
}

// newCluster returns nil if the options ask for nothing, or if there is no kubeconfig to do it
// with.
func (m *monitor) newCluster(pods func() []evict.Pod) *cluster {
	if m.options.Eviction.Kubeconfig == options.KubeconfigNone {
		return nil
	}
	c := &cluster{
		kills: faults.Kills{Cgroups: cgroupfs.Mount}, pods: pods,
		killed: make(chan evict.KilledAt, 16),
	}
	if m.options.Events {
		c.recorder = faults.NewRecorder(m.api, m.log, m.metrics.EventWritten)
	}
	if m.options.NodeCondition {
		report := func() evict.Report { return m.evictor.Report() }
		c.condition = faults.NewCondition(m.api, report, m.log, m.metrics.ConditionWritten)
	}
	if c.recorder == nil && c.condition == nil {
		return nil
	}
	return c
}

// runs returns the parts that run until their context ends. The first reading of the kills is made
// before the evictor's.
func (c *cluster) runs() []func(context.Context) error {
	var runs []func(context.Context) error
	if c != nil && c.recorder != nil {
		c.kills.Since()
		runs = append(runs, c.recorder.Run, c.attribute)
	}
	if c != nil && c.condition != nil {
		runs = append(runs, c.condition.Run)
	}
	return runs
}

// withdraw removes the condition of a partition that is no longer ours.
func (c *cluster) withdraw(ctx context.Context) {
	if c != nil && c.condition != nil {
		c.condition.Remove(ctx)
	}
}

// pressed is called when a threshold is crossed.
func (c *cluster) pressed() {
	if c != nil && c.condition != nil {
		c.condition.Pressed()
	}
}

// noCandidate records that no pod can be evicted.
func (c *cluster) noCandidate(d evict.Decision) {
	c.pressed()
	c.onNode(reasonNoCandidate, noCandidateText(d))
}

// invalid records a configuration that was refused.
func (c *cluster) invalid(what string, err error) { c.onNode(reasonInvalid, what+": "+err.Error()) }

func (c *cluster) onNode(reason, message string) {
	if c != nil && c.recorder != nil {
		c.recorder.Record(faults.Fault{Reason: reason, Message: message})
	}
}

// kernelKilled has the pods found whose processes were killed.
func (c *cluster) kernelKilled(limit evict.KilledAt) {
	if c == nil || c.recorder == nil {
		return
	}
	select {
	case c.killed <- limit:
	default: // a reading is pending, and finds these kills, too
	}
}

// attribute records kills at the partition's limit on the pods of the processes, until ctx ends.
func (c *cluster) attribute(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case limit := <-c.killed:
			for _, fault := range c.killedSince(limit) {
				c.recorder.Record(fault)
			}
		}
	}
}

// killedSince returns the faults of the kills since the last call. There are none if the reading
// for an earlier call has found them already.
func (c *cluster) killedSince(limit evict.KilledAt) []faults.Fault {
	killed, unknown := c.kills.Since()
	if limit != evict.AtPartition || len(killed) == 0 && unknown == 0 {
		return nil
	}
	return killFaults(killed, c.pods())
}

// killFaults returns the faults of kills, by the cgroup of the pod, in pods of the partition. A
// kill in none of them is one on the node.
func killFaults(killed map[string]uint64, pods []evict.Pod) []faults.Fault {
	var found []faults.Fault
	for _, p := range pods {
		if killed[p.Cgroup] > 0 && !p.Unknown {
			pod := faults.Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
			found = append(found, faults.Fault{Pod: pod, Reason: reasonKilled, Message: killedPod})
		}
	}
	if len(found) == 0 {
		return []faults.Fault{{Reason: reasonKilled, Message: killedUnknown}}
	}
	return found
}
