package check

import (
	"context"
	"errors"
	"path/filepath"

	"nodepartition/internal/kubeapi"
	"nodepartition/internal/node/options"
	"nodepartition/internal/unitname"
)

// evictionKernel checks that the kernel has what evictions use.
func (c *checks) evictionKernel(context.Context) []Finding {
	if c.options.Eviction.Off {
		return saying(OK, "--%s=off", options.FlagEviction)
	}
	var found []Finding
	for _, name := range c.desired.Names {
		path := unitname.CgroupPath(name.Slice())
		if _, ok := c.file(path, "memory.current"); ok {
			found = append(found, c.evictionKernelOf(path)...)
		}
	}
	return found
}

// evictionKernelOf checks the files of a partition that evictions use.
func (c *checks) evictionKernelOf(path string) []Finding {
	var found []Finding
	if !c.cgroups.Has(filepath.Join(path, "cgroup.kill")) {
		found = append(
			found,
			changing(
				Warning, "use kernel 5.14 or later",
				"the kernel has no cgroup.kill: pods are stopped through the runtime, which takes longer",
			)...)
	}
	found = append(found, c.protectedMemory(path)...)
	if found == nil {
		found = saying(OK, "the kernel has cgroup.kill")
	}
	return found
}

// protectedMemory finds page cache of members that the kernel does not reclaim at the partition's
// limit. It leaves less for all of them, and is not seen in their working sets.
func (c *checks) protectedMemory(path string) []Finding {
	meter, err := c.cgroups.MemoryMeter(path)
	if err != nil {
		return nil // reported by the check slice
	}
	defer meter.Close()
	reading, err := meter.Read(func(uint64, uint64) bool { return false })
	if err != nil {
		return changing(Error, "partition-monitor evicts no pod until it can be read", "the memory of the partition: %v", err)
	}
	if reading.Protected == 0 {
		return nil
	}
	return saying(OK, "%d bytes of page cache in the partition count as used: memory.min of their pods protects them "+
		"(memoryReservationPolicy: TieredReservation)", reading.Protected)
}

// evictionAPI asks the API server whether it would accept the report of an eviction.
func (c *checks) evictionAPI(ctx context.Context) []Finding {
	if c.options.Eviction.Off || c.options.Eviction.Kubeconfig == options.KubeconfigNone {
		return saying(
			OK,
			"evictions are not reported to the API server (--%s, --%s)",
			options.FlagEviction,
			options.FlagKubeconfig,
		)
	}
	client, path, err := c.apiServer()
	if err != nil {
		return changing(Warning, "set a kubeconfig with --"+options.FlagKubeconfig+" if the node belongs to a cluster",
			"%v: pods are restarted, and not evicted for good", err)
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
		return saying(Error, "%v", err)
	case err != nil:
		return saying(Warning, "%v", err)
	}
	return saying(OK, "%s accepts evictions with %s", client.Server(), path)
}
