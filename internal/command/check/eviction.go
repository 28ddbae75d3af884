package check

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/state"
)

// evictionKernel checks that the kernel has what evictions use.
func (c *checks) evictionKernel(context.Context) []state.Finding {
	if c.options.Eviction.Off {
		return saying(state.OK, "--%s=off", node.FlagEviction)
	}
	var found []state.Finding
	for _, name := range c.desired.Names {
		path := partition.CgroupPath(name.Slice())
		if _, ok := c.file(path, "memory.current"); ok {
			found = append(found, c.evictionKernelOf(path)...)
		}
	}
	return found
}

// evictionKernelOf checks the files of a partition that evictions use.
func (c *checks) evictionKernelOf(path string) []state.Finding {
	var found []state.Finding
	if !c.cgroups.Has(filepath.Join(path, "cgroup.kill")) {
		found = append(
			found,
			changing(
				state.Warning, "use kernel 5.14 or later",
				"the kernel has no cgroup.kill: pods are stopped through the runtime, which takes longer",
			)...)
	}
	found = append(found, c.protectedMemory(path)...)
	if found == nil {
		found = saying(state.OK, "the kernel has cgroup.kill")
	}
	return found
}

// protectedMemory finds page cache of members that the kernel does not reclaim at the partition's
// limit. It leaves less for all of them, and is not seen in their working sets.
func (c *checks) protectedMemory(path string) []state.Finding {
	reading, err := c.cgroups.ReadMemory(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // reported by the check slice
	}
	if err != nil {
		return changing(state.Error, "partition-monitor evicts no pod until it can be read", "the memory of the partition: %v", err)
	}
	if reading.Protected == 0 {
		return nil
	}
	return saying(state.OK, "%d bytes of page cache in the partition count as used: memory.min of their pods protects them "+
		"(memoryReservationPolicy: TieredReservation)", reading.Protected)
}

// evictionAPI asks the API server whether it would accept the report of an eviction.
func (c *checks) evictionAPI(ctx context.Context) []state.Finding {
	if c.options.Eviction.Off || c.options.Eviction.Kubeconfig == node.KubeconfigNone {
		return saying(
			state.OK,
			"evictions are not reported to the API server (--%s, --%s)",
			node.FlagEviction,
			node.FlagKubeconfig,
		)
	}
	client, path, err := c.apiServer()
	if err != nil {
		return changing(state.Warning, "set a kubeconfig with --"+node.FlagKubeconfig+" if the node belongs to a cluster",
			"pods are restarted, and not evicted for good: %v", err)
	}
	namespace := "kube-system"
	for _, p := range c.desired.Partitions {
		//guard: the first partition may have no namespace
		if len(p.Namespaces) > 0 { // a workload partition may have none
			namespace = p.Namespaces[0]
			break
		}
	}
	err = client.Rights(ctx, namespace)
	c.unreachable = unreachable(err)
	switch {
	case errors.Is(err, kubeapi.ErrForbidden), errors.Is(err, kubeapi.ErrCredentials):
		return saying(state.Error, "%v", err)
	case err != nil:
		return saying(state.Warning, "%v", err)
	}
	return saying(state.OK, "%s accepts evictions with %s", client.Server(), path)
}
