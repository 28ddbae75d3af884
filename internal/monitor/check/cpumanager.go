package check

import (
	"context"

	"nodepartition/internal/monitor/node"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/podmove"
)

// cpuManager finds members to which the static CPU manager has given CPUs exclusively. It takes
// them from those outside the partition, where the member cannot run, and keeps all other pods off
// them.
func (c *checks) cpuManager(ctx context.Context) []Finding {
	p := c.desired.Partition
	if p == nil {
		return nil
	}
	if p.CPUs.IsEmpty() {
		return saying(OK, "the partition has no cpuset: its pods run on the CPUs that the kubelet gives them")
	}
	gatherer := podmove.Gatherer{
		Partition: unitname.System, Cgroups: c.cgroups, Runtime: c.runtime, Kubelet: node.ListPods(ctx, c.options.PodsAPI),
	}
	snapshot, err := gatherer.Snapshot(ctx, podmove.Config{Partition: unitname.System, Namespaces: p.Namespaces}, podmove.Working)
	if err != nil {
		return nil // reported by the check runtime
	}
	var found []Finding
	for _, pod := range podmove.Decide(snapshot).Pods {
		if pod.IdleCPUs != "" {
			found = append(found, changing(
				Warning, "request a CPU amount that is not whole, or less than the limit; or remove cpuset from the section",
				"pod %s/%s has CPU %s exclusively, and runs on CPU %s of the partition: no pod uses CPU %s",
				pod.Namespace, pod.Name, pod.IdleCPUs, p.CPUs, pod.IdleCPUs,
			)...)
		}
	}
	if found == nil {
		found = saying(OK, "no member has CPUs exclusively that it cannot use")
	}
	return found
}
