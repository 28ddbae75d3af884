package podmove

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/cpuweight"
	"nodepartition/internal/cri"
	"nodepartition/internal/podsapi"
	"nodepartition/internal/unitname"
)

// Runtime reads from the container runtime. *cri.Client implements it.
type Runtime interface {
	Sandboxes(ctx context.Context) ([]cri.Sandbox, error)
	Containers(ctx context.Context) ([]cri.Container, error)
	// Resources returns the resources that a container was created with.
	Resources(ctx context.Context, id string) (cri.Resources, error)
	// Process returns the ID of a container's first process, and whether the container runs. The ID is
	// 0 if the runtime does not report it.
	Process(ctx context.Context, id string) (pid int, running bool, err error)
}

// Kubelet reads from the kubelet. *podsapi.Watcher implements it.
type Kubelet interface {
	// Pods returns the pods by UID, and whether the kubelet has ever reported them.
	Pods() (map[types.UID]*podsapi.Pod, bool)
	// Answers reports whether the kubelet reports its pods now, and has reported all of them.
	Answers() bool
}

// Gatherer reads the node for a Snapshot.
type Gatherer struct {
	// Partition is the partition whose slices are read beside the kubelet's own.
	Partition unitname.Partition
	Cgroups   cgroupfs.FS
	Runtime   Runtime
	Kubelet   Kubelet
	// Announced may be nil. Then a pod counts once the runtime lists it.
	Announced Announced
	// Proc is the mount point of procfs. Empty means /proc.
	Proc string

	// resources holds the resources of containers by ID. They are read once, if the kubelet does not
	// report the requests.
	resources map[string]cri.Resources
	// elsewhere holds the cgroups of containers outside their pod's slices, by ID. They are read once.
	elsewhere map[string]string
	leftOvers leftOvers
	outlived  outlived
}

// podCgroups holds the slices of pods that were found, by their escaped UID. A pod has two slices
// in one partition if it is a static pod that was rewritten with other requests and the same UID.
type podCgroups map[string]map[unitname.Partition][]foundSlice

type foundSlice struct {
	qos   v1.PodQOSClass
	name  string
	units []string
}

// pods returns the pods of the node. The order of reading matters: cgroups first. A pod slice that
// existed before the runtime listed no pod for it is left over.
func (g *Gatherer) pods(ctx context.Context) (pods []Pod, err error) {
	defer func() {
		if err != nil {
			g.outlived = outlived{} // whoever did not answer may have the pods
		}
	}()
	found, err := g.podCgroups()
	if err != nil {
		return nil, err
	}
	sandboxes, containers, err := g.lists(ctx)
	if err != nil {
		return nil, err
	}
	answers := g.Kubelet.Answers() // before its pods: they are of that list, or of a later one
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
	present := found
	if g.lacking(byUID, of, found) {
		// The kubelet creates the slice of a pod before its sandbox, and the runtime creates the scope
		// before it reports that a container runs. Whatever appeared since the first reading is there
		// now.
		if present, err = g.podCgroups(); err != nil {
			return nil, err
		}
	}
	for uid, pod := range byUID {
		escaped := unitname.EscapeUID(uid)
		left, err := g.complete(ctx, pod, present[escaped], known[types.UID(uid)], of[uid])
		if err != nil {
			return nil, err
		}
		delete(found, escaped)
		pods = append(append(pods, *pod), left...)
	}
	next, now := leftOvers{}, time.Now()
	outlivedNow := g.outlived.next(answers)
	for escaped, left := range found {
		for _, partitionSlice := range left[g.Partition] {
			pod := leftOver(escaped, partitionSlice, left[unitname.Default], liveMoved(partitionSlice.units))
			if len(left[unitname.Default]) == 0 && !reports(known, escaped) {
				live := g.live(partitionSlice.name, containers)
				var ended []string
				ended, pod.Settling = g.leftOvers.find(partitionSlice.units, live, now, next)
				pod.Orphans = append(pod.Orphans, ended...)
				unclaimed := g.unclaimed(partitionSlice.name, containers)
				pod.Outlived = g.outlived.find(pod.PartitionCgroup, unclaimed, now, outlivedNow)
			}
			pods = append(pods, pod)
		}
	}
	g.leftOvers, g.outlived = next, outlivedNow
	g.forget(containers)
	return pods, nil
}

// lacking reports whether a pod is without the slice that it should have, or a container without a
// scope.
func (g *Gatherer) lacking(pods map[string]*Pod, of map[string][]cri.Container, found podCgroups) bool {
	for uid, pod := range pods {
		slices := found[unitname.EscapeUID(uid)]
		if pod.Ready && len(slices[unitname.Default]) == 0 {
			return true
		}
		scopes := g.scopesIn(slices)
		for _, c := range of[uid] {
			if c.State == cri.Running && len(scopes[c.ID]) == 0 {
				return true
			}
		}
	}
	return false
}

// leftOver returns a Pod for a slice of the partition whose pod is gone, or is in another slice
// now. The kubelet may still have its own slice of the pod.
func leftOver(escapedUID string, partitionSlice foundSlice, kubelets []foundSlice, orphans []string) Pod {
	defaultSlice := unitname.PodSlice(unitname.Default, partitionSlice.qos, escapedUID)
	return Pod{
		UID:             escapedUID,
		QoS:             partitionSlice.qos,
		PartitionCgroup: PodCgroup{Slice: partitionSlice.name, Exists: true, Units: partitionSlice.units},
		Orphans:         orphans,
		DefaultCgroup: PodCgroup{
			Slice:  defaultSlice,
			Exists: slices.ContainsFunc(kubelets, func(s foundSlice) bool { return s.name == defaultSlice }),
		},
	}
}

func (g *Gatherer) lists(ctx context.Context) ([]cri.Sandbox, []cri.Container, error) {
	// Containers are read before sandboxes, so that no container is without its sandbox.
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
	if g.Announced == nil {
		return sandboxes, containers, nil
	}
	// Announced sandboxes are read after the list: one that was announced before the list and removed
	// since is in neither.
	announced := g.Announced.Announced(func(id string) bool { return listed[id] })
	return append(sandboxes, announced...), containers, nil
}

// complete adds to a pod what the kubelet and the cgroups report about it. It returns the slices
// that are left over from an earlier pod with this UID.
func (g *Gatherer) complete(
	ctx context.Context,
	pod *Pod,
	found map[unitname.Partition][]foundSlice,
	known *podsapi.Pod,
	containers []cri.Container,
) ([]Pod, error) {
	reported := v1.PodQOSClass("")
	if known != nil {
		reported = known.QoS
	}
	defaultSlice, inDefault := choose(found[unitname.Default], reported)
	switch {
	case inDefault:
		pod.QoS = defaultSlice.qos // where the kubelet has put it is decisive
	case reported != "":
		pod.QoS = reported
	case len(found[g.Partition]) > 0:
		pod.QoS = found[g.Partition][0].qos
	}
	partitionSlice := foundSlice{}
	inPartition := false
	var left []Pod
	for _, s := range found[g.Partition] {
		if s.qos == pod.QoS {
			partitionSlice, inPartition = s, true
		} else {
			left = append(left, leftOver(unitname.EscapeUID(pod.UID), s, found[unitname.Default], ended(s.units, containers)))
		}
	}
	pod.DefaultCgroup = PodCgroup{
		Slice: unitname.PodSlice(unitname.Default, pod.QoS, pod.UID), Exists: inDefault, Units: defaultSlice.units,
	}
	pod.PartitionCgroup = PodCgroup{
		Slice: unitname.PodSlice(g.Partition, pod.QoS, pod.UID), Exists: inPartition, Units: partitionSlice.units,
	}
	for _, slice := range []*PodCgroup{&pod.DefaultCgroup, &pod.PartitionCgroup} {
		if !slice.Exists {
			continue
		}
		limits, err := g.Cgroups.Limits(unitname.CgroupPath(slice.Slice))
		if errors.Is(err, fs.ErrNotExist) {
			slice.Exists = false
			continue
		}
		if err != nil {
			return nil, err
		}
		slice.Limits = limits
	}
	scopes := g.scopesIn(found)
	if known != nil {
		pod.Kubelet = kubeletPod(known)
		pod.MilliCPU = known.MilliCPU
		pod.Static = pod.Static || known.Static
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
		container.Ready = container.Running
		if container.Running && container.Unit == "" {
			g.find(ctx, pod, &container)
		}
		if known != nil {
			k, ok := known.Containers[c.Name]
			container.Init, container.Sidecar, container.Order = k.Init, k.Sidecar, k.Order
			// A container that is no longer in the pod's spec is not started again.
			container.Restarts = ok && restarts(known.RestartPolicy, k)
			container.Ready = container.Running && k.ID == c.ID && k.Ready
		} else if container.Running || container.Creating {
			var err error
			if container.Resources, err = g.resourcesOf(ctx, c.ID); err != nil {
				return nil, err
			}
			// The minimum means no request.
			if shares := container.Resources.Shares; shares > cpuweight.MinShares {
				pod.MilliCPU += int64((shares*1000 + 1023) / 1024)
			}
		} else if resources, err := g.resourcesOf(ctx, c.ID); err == nil {
			// Its score shows the priority of its pod. The runtime may remove it at any moment.
			container.Resources = resources
		}
		if container.Running && container.Unit != "" {
			path := unitname.CgroupPath(at.slice) + "/" + at.unit
			if own, err := g.Cgroups.HasChildren(path); err == nil {
				container.OwnCgroups = own
			}
			if at.slice == pod.PartitionCgroup.Slice && pod.QoS == v1.PodQOSGuaranteed {
				container.IdleCPUs = g.idleCPUs(path)
			}
		}
		for _, unit := range []string{container.Unit, container.AlsoUnit} {
			if c.State == cri.Exited && unitname.IsLiveMoved(unit) {
				pod.Orphans = append(pod.Orphans, unit)
			}
		}
		pod.Containers = append(pod.Containers, container)
	}
	slices.SortFunc(
		pod.Containers,
		func(a, b Container) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) },
	)
	pod.Orphans = append(pod.Orphans, abandoned(pod)...)
	if len(liveMoved(pod.PartitionCgroup.Units)) > 0 && pod.DefaultCgroup.Exists {
		pod.DefaultCgroup.Bytes = g.own(pod.DefaultCgroup)
	}
	return left, nil
}

// choose returns the slice of the class, or the first one if none has that class.
func choose(found []foundSlice, q v1.PodQOSClass) (foundSlice, bool) {
	if len(found) == 0 {
		return foundSlice{}, false
	}
	i := slices.IndexFunc(found, func(s foundSlice) bool { return s.qos == q })
	return found[max(i, 0)], true
}

// place is the slice and the unit that a container is in.
type place struct{ slice, unit string }

// scopesIn returns the places of the containers in the slices of a pod, by container ID.
func (g *Gatherer) scopesIn(found map[unitname.Partition][]foundSlice) map[string][]place {
	scopes := map[string][]place{}
	for _, slice := range slices.Concat(found[unitname.Default], found[g.Partition]) {
		for _, unit := range slice.units {
			if id := unitname.ContainerID(unit); id != "" {
				scopes[id] = append(scopes[id], place{slice.name, unit})
			}
		}
	}
	return scopes
}

// ended returns those of our scopes among units whose container does not run.
func ended(units []string, containers []cri.Container) []string {
	return slices.DeleteFunc(liveMoved(units), func(unit string) bool {
		return slices.ContainsFunc(
			containers,
			func(c cri.Container) bool { return c.ID == unitname.ContainerID(unit) && c.State != cri.Exited },
		)
	})
}

// abandoned returns our scopes for containers that the runtime has removed.
func abandoned(pod *Pod) []string {
	listed := map[string]bool{}
	for _, c := range pod.Containers {
		listed[c.ID] = true
	}
	var units []string
	for _, unit := range liveMoved(slices.Concat(pod.DefaultCgroup.Units, pod.PartitionCgroup.Units)) {
		if !listed[unitname.ContainerID(unit)] {
			units = append(units, unit)
		}
	}
	return units
}

func liveMoved(units []string) []string {
	var moved []string
	for _, unit := range units {
		if unitname.IsLiveMoved(unit) && unitname.ContainerID(unit) != "" {
			moved = append(moved, unit)
		}
	}
	return moved
}

// reports reports whether the kubelet reports a pod with this escaped UID.
func reports(known map[types.UID]*podsapi.Pod, escaped string) bool {
	for uid := range known {
		if unitname.EscapeUID(string(uid)) == escaped {
			return true
		}
	}
	return false
}

// live returns a function that reports whether a scope in the slice has a process, or the runtime
// reports its container. A scope that cannot be read counts as one with a process.
func (g *Gatherer) live(slice string, containers []cri.Container) func(scope, id string) bool {
	return func(scope, id string) bool {
		if slices.ContainsFunc(containers, func(c cri.Container) bool { return c.ID == id }) {
			return true
		}
		populated, err := g.Cgroups.Populated(unitname.CgroupPath(slice) + "/" + scope)
		return err != nil || populated
	}
}

// unclaimed returns a function that reports whether a scope in the slice has a process, and the
// runtime does not report its container. A scope that cannot be read does not count.
func (g *Gatherer) unclaimed(slice string, containers []cri.Container) func(scope, id string) bool {
	return func(scope, id string) bool {
		if slices.ContainsFunc(containers, func(c cri.Container) bool { return c.ID == id }) {
			return false
		}
		populated, err := g.Cgroups.Populated(unitname.CgroupPath(slice) + "/" + scope)
		return err == nil && populated
	}
}

// own returns the memory that is charged to a pod's slice itself and not to a cgroup in it.
func (g *Gatherer) own(slice PodCgroup) uint64 {
	path := unitname.CgroupPath(slice.Slice)
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
		Terminating: known.Terminating || known.Ended, Initializing: known.Initializing, Ready: known.Ready,
		Priority: known.Priority, GracePeriod: known.GracePeriod,
	}
}

// restarts reports whether the kubelet starts a container again whatever its exit status is.
// OnFailure does not if the container exits with 0 at SIGTERM. A container's own policy comes
// before the pod's (KEP-5307).
func restarts(pod v1.RestartPolicy, c podsapi.Container) bool {
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

// podCgroups finds the slices of pods in both partitions. It ignores other cgroups.
func (g *Gatherer) podCgroups() (podCgroups, error) {
	found := podCgroups{}
	for _, p := range []unitname.Partition{unitname.Default, g.Partition} {
		for _, q := range []v1.PodQOSClass{v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort} {
			parent := unitname.CgroupPath(unitname.QoSSlice(p, q))
			names, err := g.Cgroups.Children(parent)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				inPartition, qos, uid, ok := unitname.ParsePodSlice(name)
				if !ok || inPartition != p || qos != string(q) {
					continue
				}
				units, err := g.Cgroups.Children(parent + "/" + name)
				if err != nil {
					return nil, err
				}
				if found[uid] == nil {
					found[uid] = map[unitname.Partition][]foundSlice{}
				}
				found[uid][p] = append(found[uid][p], foundSlice{qos: q, name: name, units: units})
			}
		}
	}
	return found, nil
}

// Snapshot reads the node. The results of earlier passes (moves, orders, the formula) are not in
// it.
func (g *Gatherer) Snapshot(ctx context.Context, c Config, nri NRIState) (Snapshot, error) {
	pods, err := g.pods(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	weights, protected := g.slices()
	return Snapshot{
		Config: c, Pods: pods, NRI: nri, Weights: weights, Protected: protected, Formula: cpuweight.Linear,
	}, nil
}

// slices returns the present weights of the partition's slices, and their protected memory.
func (g *Gatherer) slices() (weights map[string]uint64, protected map[string]cgroupfs.Protection) {
	weights, protected = map[string]uint64{}, map[string]cgroupfs.Protection{}
	for _, slice := range []string{g.Partition.Slice(), unitname.QoSSlice(g.Partition, v1.PodQOSBurstable)} {
		if limits, err := g.Cgroups.Limits(unitname.CgroupPath(slice)); err == nil {
			weights[slice], protected[slice] = limits.CPUWeight, limits.Protection
		}
	}
	return weights, protected
}
