package podmove

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
)

// locate returns a container of the runtime's list with the places that it was found in.
func (g *Gatherer) locate(ctx context.Context, pod *Pod, c cri.Container, places []place) Container {
	var at, also place
	if len(places) > 0 {
		at = places[0]
	}
	if len(places) > 1 {
		also = places[1]
	}
	container := Container{
		ID: c.ID, Name: c.Name, Running: c.State == cri.Running, Creating: c.State == cri.Created,
		Slice: at.slice, Unit: at.unit, AlsoSlice: also.slice, AlsoUnit: also.unit,
	}
	container.Ready = container.Running
	if container.Running && container.Unit == "" {
		g.find(ctx, pod, &container)
	}
	return container
}

// reported adds what the kubelet reports about a container.
func (c *Container) reported(known *kubelet.Pod) {
	k, ok := known.Containers[c.Name]
	c.Container, c.asked = k, known.Requested.Containers[c.Name]
	// A container that is no longer in the pod's spec is not started again.
	c.Restarts = ok && restarts(known.RestartPolicy, k)
	c.Ready = c.Running && k.ID == c.ID && k.Ready
}

// hasEnded reports whether a container of a pod has ended and has not been made again: an init
// container, as a rule.
func hasEnded(name string, containers []cri.Container) bool {
	ended := false
	for _, c := range containers {
		if c.Name == name {
			if c.State != cri.Exited {
				return false
			}
			ended = true
		}
	}
	return ended
}

// estimate adds the resources of a container that the kubelet does not report, and adds its request
// to the pod's.
func (g *Gatherer) estimate(ctx context.Context, pod *Pod, container *Container) error {
	var err error
	//guard: a container that has ended shows the priority of its pod
	container.Resources, err = g.resourcesOf(ctx, container.ID)
	container.asked = pod.Annotated.Containers[container.Name]
	if !container.Running && !container.Creating {
		// Its score shows the priority of its pod. The runtime may remove it at any moment.
		return nil
	}
	if err != nil {
		return err
	}
	// The minimum means no request.
	if shares := container.Resources.Shares; shares > admission.MinShares {
		container.MilliCPU = int64((shares*1000 + 1023) / 1024)
		pod.MilliCPU += container.MilliCPU
	}
	return nil
}

// inspect adds what the scope of a running container shows.
func (r *reading) inspect(c *Container) {
	if !c.Running || c.Unit == "" {
		return
	}
	path := partition.CgroupPath(c.Slice) + "/" + c.Unit
	if own, err := r.Cgroups.HasChildren(path); err == nil {
		c.OwnCgroups = own
	}
	if cpu, err := r.cpu(path); err == nil {
		c.CPU = cpu
	}
}

// cpu reads the CPU time of a scope, if a pod of the node asks for a type.
func (r *reading) cpu(path string) (cgroups.CPU, error) {
	if !r.asking {
		return cgroups.CPU{}, nil
	}
	return r.Cgroups.CPU(path)
}

// place is the slice and the unit that a container is in.
type place struct{ slice, unit string }

// scopesIn returns the places of the containers in the slices of a pod, by container ID.
func scopesIn(found []foundSlice) map[string][]place {
	scopes := map[string][]place{}
	for _, slice := range found {
		for _, unit := range slice.Units {
			if id := partition.ContainerID(unit); id != "" {
				scopes[id] = append(scopes[id], place{slice.Slice, unit})
			}
		}
	}
	return scopes
}

// ended returns the live-move scopes in units whose container is not running.
func ended(units []string, containers []cri.Container) []string {
	return slices.DeleteFunc(liveMoved(units), func(unit string) bool {
		return slices.ContainsFunc(
			containers,
			func(c cri.Container) bool { return c.ID == partition.ContainerID(unit) && c.State != cri.Exited },
		)
	})
}

func liveMoved(units []string) []string {
	var moved []string
	for _, unit := range units {
		if partition.IsLiveMoved(unit) && partition.ContainerID(unit) != "" {
			moved = append(moved, unit)
		}
	}
	return moved
}

// restarts reports whether the kubelet starts a container again whatever its exit status is.
// OnFailure does not if the container exits with 0 at SIGTERM. A container's own policy comes
// before the pod's (KEP-5307).
func restarts(pod v1.RestartPolicy, c kubelet.Container) bool {
	switch {
	case c.Sidecar:
		return true
	case c.Init, c.Ephemeral:
		return false
	case c.RestartPolicy != "":
		return c.RestartPolicy == v1.ContainerRestartPolicyAlways
	}
	return pod == v1.RestartPolicyAlways
}

func (g *Gatherer) resourcesOf(ctx context.Context, id string) (cri.Resources, error) {
	if known, ok := g.resources[id]; ok {
		return known, nil
	}
	status, err := g.Runtime.Status(ctx, id)
	if err != nil {
		return cri.Resources{}, err
	}
	if g.resources == nil {
		g.resources = map[string]cri.Resources{}
	}
	g.resources[id] = status.Resources
	return status.Resources, nil
}

// forget drops the cached data of containers that are gone.
func (g *Gatherer) forget(containers []cri.Container) {
	if len(g.resources)+len(g.elsewhere) == 0 {
		return
	}
	there := map[string]bool{}
	for _, c := range containers {
		there[c.ID] = true
	}
	for id := range g.resources {
		if !there[id] {
			delete(g.resources, id)
		}
	}
	for id := range g.elsewhere {
		if !there[id] {
			delete(g.elsewhere, id)
		}
	}
}
