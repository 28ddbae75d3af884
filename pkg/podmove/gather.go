package podmove

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cri"
	"nodepartition/internal/podsapi"
	partition "nodepartition/pkg/slices"
)

// Runtime is what is asked of the container runtime. *cri.Client is one.
type Runtime interface {
	Sandboxes(ctx context.Context) ([]cri.Sandbox, error)
	Containers(ctx context.Context) ([]cri.Container, error)
	// Resources returns what a container was created with.
	Resources(ctx context.Context, id string) (cri.Resources, error)
}

// Kubelet is what the kubelet is asked for. *podsapi.Watcher is one.
type Kubelet interface {
	// Pods returns the pods by UID and whether the kubelet has ever told them.
	Pods() (map[types.UID]*podsapi.Pod, bool)
}

// Announced are pods that the runtime told of over NRI. Its list of sandboxes has a pod only when its sandbox runs.
type Announced interface {
	// Announced returns those that are not listed, and forgets the others: from then on the list tells.
	Announced(listed func(id string) bool) []cri.Sandbox
}

// Gatherer reads what a Snapshot holds.
type Gatherer struct {
	Cgroups   cgroupfs.FS
	Runtime   Runtime
	Kubelet   Kubelet
	Announced Announced

	// resources of containers, by ID: asked for once where the kubelet does not tell the requests.
	resources map[string]cri.Resources
}

// podCgroups are the slices of pods that were found, by their escaped UID.
type podCgroups map[string]map[Partition]foundSlice

type foundSlice struct {
	qos   QoS
	name  string
	units []string
}

// Pods returns the pods of the node. The order of reading matters: cgroups first. A pod slice that was
// there before the runtime listed no pod for it is left over.
func (g *Gatherer) Pods(ctx context.Context) ([]Pod, error) {
	found, err := g.podCgroups()
	if err != nil {
		return nil, err
	}
	sandboxes, containers, err := g.lists(ctx)
	if err != nil {
		return nil, err
	}
	known, _ := g.Kubelet.Pods()

	byUID := map[string]*Pod{}
	uidOfSandbox := map[string]string{}
	for _, s := range sandboxes {
		uidOfSandbox[s.ID] = s.UID
		pod := byUID[s.UID]
		if pod == nil {
			pod = &Pod{UID: s.UID, Namespace: s.Namespace, Name: s.Name, Exists: true}
			byUID[s.UID] = pod
		}
		pod.Ready = pod.Ready || s.Ready
		pod.Static = pod.Static || s.Static
	}
	of := map[string][]cri.Container{}
	for _, c := range containers {
		uid, ok := uidOfSandbox[c.SandboxID]
		if ok {
			of[uid] = append(of[uid], c)
		}
	}
	var pods []Pod
	for uid, pod := range byUID {
		escaped := strings.ReplaceAll(uid, "-", "_")
		if err := g.complete(ctx, pod, found[escaped], known[types.UID(uid)], of[uid]); err != nil {
			return nil, err
		}
		delete(found, escaped)
		pods = append(pods, *pod)
	}
	for escaped, left := range found {
		guest, ok := left[System]
		if !ok {
			continue
		}
		pods = append(pods, Pod{UID: escaped, QoS: guest.qos, Guest: PodCgroup{Slice: guest.name, Exists: true, Units: guest.units},
			Home: PodCgroup{Slice: PodSlice(Default, guest.qos, escaped)}, Orphans: liveMoved(guest.units)})
	}
	g.forget(containers)
	return pods, nil
}

func (g *Gatherer) lists(ctx context.Context) ([]cri.Sandbox, []cri.Container, error) {
	// Containers before sandboxes: a container is never without its sandbox then.
	containers, err := g.Runtime.Containers(ctx)
	if err != nil {
		return nil, nil, err
	}
	sandboxes, err := g.Runtime.Sandboxes(ctx)
	if err != nil {
		return nil, nil, err
	}
	listed := map[string]bool{}
	for _, s := range sandboxes {
		listed[s.ID] = true
	}
	// After the list: one that was announced before it, and removed, is in neither.
	announced := g.Announced.Announced(func(id string) bool { return listed[id] })
	return append(sandboxes, announced...), containers, nil
}

// complete adds to a pod what the kubelet and the cgroups say of it.
func (g *Gatherer) complete(ctx context.Context, pod *Pod, found map[Partition]foundSlice, known *podsapi.Pod, containers []cri.Container) error {
	home, atHome := found[Default]
	guest, isGuest := found[System]
	switch {
	case atHome:
		pod.QoS = home.qos // where the kubelet has put it is what counts
	case isGuest:
		pod.QoS = guest.qos
	case known != nil:
		pod.QoS = QoS(known.QoS)
	}
	pod.Home = PodCgroup{Slice: PodSlice(Default, pod.QoS, pod.UID), Exists: atHome, Units: home.units}
	pod.Guest = PodCgroup{Slice: PodSlice(System, pod.QoS, pod.UID), Exists: isGuest, Units: guest.units}
	if isGuest && guest.qos != pod.QoS {
		// A static pod that was written again with other requests and the same UID. What is left of the old one goes first.
		pod.Guest.Slice = guest.name
	}
	for _, slice := range []*PodCgroup{&pod.Home, &pod.Guest} {
		if !slice.Exists {
			continue
		}
		limits, err := g.Cgroups.Limits(cgroupfs.SlicePath(slice.Slice))
		if errors.Is(err, fs.ErrNotExist) {
			slice.Exists = false
			continue
		}
		if err != nil {
			return err
		}
		slice.Limits = limits
	}
	scopes := map[string][]place{} // by ID
	for _, slice := range []PodCgroup{pod.Home, pod.Guest} {
		for _, unit := range slice.Units {
			if id := ContainerID(unit); id != "" {
				scopes[id] = append(scopes[id], place{slice.Slice, unit})
			}
		}
	}
	if known != nil {
		pod.Kubelet = kubeletPod(known)
		pod.MilliCPU = known.MilliCPU
	}
	for _, c := range containers {
		var at, also place
		if places := scopes[c.ID]; len(places) > 0 {
			at = places[0]
			if len(places) > 1 {
				also = places[1]
			}
		}
		container := Container{
			ID: c.ID, Name: c.Name, Running: c.State == cri.Running, Creating: c.State == cri.Created,
			Slice: at.slice, Unit: at.unit, AlsoSlice: also.slice, AlsoUnit: also.unit,
		}
		if known != nil {
			k := known.Containers[c.Name]
			container.Init, container.Sidecar, container.Order = k.Init, k.Sidecar, k.Order
			container.Restarts = restarts(known.RestartPolicy, k)
		} else if container.Running || container.Creating {
			var err error
			if container.Resources, err = g.resourcesOf(ctx, c.ID); err != nil {
				return err
			}
			if shares := container.Resources.Shares; shares > minShares { // the minimum is no request at all
				pod.MilliCPU += int64((shares*1000 + 1023) / 1024)
			}
		}
		if container.Running && container.Unit != "" {
			path := cgroupfs.SlicePath(at.slice) + "/" + at.unit
			if own, err := g.Cgroups.HasChildren(path); err == nil {
				container.OwnCgroups = own
			}
		}
		for _, unit := range []string{container.Unit, container.AlsoUnit} {
			if c.State == cri.Exited && IsLiveMoved(unit) {
				pod.Orphans = append(pod.Orphans, unit)
			}
		}
		pod.Containers = append(pod.Containers, container)
	}
	slices.SortFunc(pod.Containers, func(a, b Container) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	pod.Orphans = append(pod.Orphans, abandoned(pod)...)
	if len(liveMoved(pod.Guest.Units)) > 0 && pod.Home.Exists {
		pod.Home.Bytes = g.own(pod.Home)
	}
	return nil
}

// place is where a container is.
type place struct{ slice, unit string }

// abandoned are scopes of ours for containers that the runtime has removed.
func abandoned(pod *Pod) []string {
	listed := map[string]bool{}
	for _, c := range pod.Containers {
		listed[c.ID] = true
	}
	var units []string
	for _, unit := range liveMoved(slices.Concat(pod.Home.Units, pod.Guest.Units)) {
		if !listed[ContainerID(unit)] {
			units = append(units, unit)
		}
	}
	return units
}

func liveMoved(units []string) []string {
	var moved []string
	for _, unit := range units {
		if IsLiveMoved(unit) && ContainerID(unit) != "" {
			moved = append(moved, unit)
		}
	}
	return moved
}

// own is the memory of a pod's slice that is not that of a cgroup in it.
func (g *Gatherer) own(slice PodCgroup) uint64 {
	path := cgroupfs.SlicePath(slice.Slice)
	bytes, err := g.Cgroups.MemoryCurrent(path)
	if err != nil {
		return 0 // gone by now
	}
	for _, unit := range slice.Units {
		if part, err := g.Cgroups.MemoryCurrent(path + "/" + unit); err == nil {
			bytes -= min(part, bytes)
		}
	}
	return bytes
}

func kubeletPod(known *podsapi.Pod) *KubeletPod {
	return &KubeletPod{
		Terminating: known.Terminating || known.Ended, Initializing: known.Initializing, GracePeriod: known.GracePeriod,
	}
}

// restarts tells whether the kubelet starts a container again whatever its exit status is: OnFailure does not where
// the container ends well at SIGTERM. A container's own policy comes before the pod's (KEP-5307).
func restarts(pod v1.RestartPolicy, c podsapi.Container) bool {
	switch {
	case c.Sidecar:
		return true
	case c.Init:
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
	resources, err := g.Runtime.Resources(ctx, id)
	if err != nil {
		return cri.Resources{}, err
	}
	if g.resources == nil {
		g.resources = map[string]cri.Resources{}
	}
	g.resources[id] = resources
	return resources, nil
}

// forget drops the resources of containers that are gone.
func (g *Gatherer) forget(containers []cri.Container) {
	if len(g.resources) == 0 {
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
}

// podCgroups finds the slices of pods in both partitions. What is no slice of a pod is passed over.
func (g *Gatherer) podCgroups() (podCgroups, error) {
	found := podCgroups{}
	for _, p := range []Partition{Default, System} {
		for _, q := range []QoS{Guaranteed, Burstable, BestEffort} {
			parent := cgroupfs.SlicePath(parentSlice(p, q))
			names, err := g.Cgroups.Children(parent)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				inPartition, qos, uid, ok := ParsePodSlice(name)
				if !ok || inPartition != p || qos != q {
					continue
				}
				units, err := g.Cgroups.Children(parent + "/" + name)
				if err != nil {
					return nil, err
				}
				if found[uid] == nil {
					found[uid] = map[Partition]foundSlice{}
				}
				found[uid][p] = foundSlice{qos: q, name: name, units: units}
			}
		}
	}
	return found, nil
}

// Weights are the present weights of the partition's slices.
func (g *Gatherer) Weights() map[string]uint64 {
	weights := map[string]uint64{}
	for _, slice := range []string{partition.SystemSlice, partition.BurstableSlice} {
		if weight, err := g.Cgroups.CPUWeight(cgroupfs.SlicePath(slice)); err == nil {
			weights[slice] = weight
		}
	}
	return weights
}
