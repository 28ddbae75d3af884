package podmove

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/partition"
)

// Runtime reads from the container runtime. *cri.Client implements it.
type Runtime interface {
	Sandboxes(ctx context.Context) ([]cri.Sandbox, error)
	Containers(ctx context.Context) ([]cri.Container, error)
	// Status returns what the runtime reports of a container.
	Status(ctx context.Context, id string) (cri.Status, error)
}

// Kubelet reads from the kubelet. *kubelet.Watcher implements it.
type Kubelet interface {
	// Pods returns the pods by UID as the kubelet reported them last, and whether it ever has.
	Pods() (map[types.UID]*kubelet.Pod, bool)
	// Answers reports whether the kubelet reports its pods now, and has reported all of them.
	Answers() bool
}

// Gatherer reads the node for a Snapshot.
type Gatherer struct {
	Cgroups cgroups.FS
	Runtime Runtime
	Kubelet Kubelet
	// Announced may be nil. Then a pod counts once the runtime lists it.
	Announced Announced
	// Proc is the mount point of procfs. Empty means /proc.
	Proc string

	// resources holds the resources of containers by ID. They are read once, if the kubelet does not
	// report the requests.
	resources map[string]cri.Resources
	// elsewhere holds the cgroups of containers outside their pod's slices, by ID. They are read once.
	elsewhere map[string]string
	forgotten forgotten
}

// podCgroups holds the slices of pods that were found, by their escaped UID. Slices of the default
// partition come first, then the others in the order of the configuration. A pod has two slices in
// one partition if it is a static pod that was rewritten with other requests and the same UID.
type podCgroups map[string][]foundSlice

type foundSlice struct {
	PodCgroup
	qos v1.PodQOSClass
}

// hasDefault reports whether there is a slice in the default partition.
func hasDefault(found []foundSlice) bool {
	return len(found) > 0 && found[0].Partition == partition.Default
}

// reading holds what the pods of a reconcile are read with.
type reading struct {
	*Gatherer
	// partitions lists the partitions of the policy. A slice of another name is somebody else's.
	partitions []partition.Name
	containers []cri.Container
	// listed has the IDs of the containers, next what replaces Gatherer.forgotten.
	listed map[string]bool
	next   forgotten
	// known are the pods that the kubelet reports.
	known map[types.UID]*kubelet.Pod
	// asking means that a pod asks for a workload type.
	asking bool
}

// pods returns the pods of the node with their slices in these partitions. The order of reading
// matters: cgroups first. A pod slice that existed before the runtime listed no pod for it is left
// over.
func (g *Gatherer) pods(ctx context.Context, partitions []partition.Name) (pods []Pod, err error) {
	defer func() {
		if err != nil {
			//guard: a runtime that was away begins the minute again
			g.forgotten = forgotten{} // whoever did not answer may have the pods
		}
	}()
	r := reading{Gatherer: g, partitions: partitions}
	found, err := r.podCgroups()
	if err != nil {
		return nil, err
	}
	sandboxes, containers, err := g.lists(ctx)
	if err != nil {
		return nil, err
	}
	r.containers, r.listed = containers, make(map[string]bool, len(containers))
	for _, c := range containers {
		r.listed[c.ID] = true
	}
	answers := g.Kubelet.Answers() // before its pods: they are of that list, or of a later one
	r.known, _ = g.Kubelet.Pods()
	r.next = r.forgotten.next(answers)

	byUID, of := group(sandboxes, containers)
	for _, pod := range byUID {
		r.asking = r.asking || pod.Ask.Type != ""
	}
	present := found
	if lacking(byUID, of, found) {
		// The kubelet creates the slice of a pod before its sandbox, and the runtime creates the scope
		// before it reports that a container runs. Whatever appeared since the first reading is there
		// now.
		if present, err = r.podCgroups(); err != nil {
			return nil, err
		}
	}
	for uid, pod := range byUID {
		escaped := partition.EscapeUID(uid)
		left, err := r.complete(ctx, pod, present[escaped], of[uid])
		if err != nil {
			return nil, err
		}
		delete(found, escaped)
		pods = append(append(pods, *pod), left...)
	}
	pods = append(pods, r.gone(found, answers)...)
	g.forget(containers)
	g.forgotten = r.next
	return pods, nil
}

// group returns the pods of the runtime's sandboxes, and their containers, by UID.
func group(sandboxes []cri.Sandbox, containers []cri.Container) (map[string]*Pod, map[string][]cri.Container) {
	byUID := map[string]*Pod{}
	uidOfSandbox := map[string]string{}
	for _, s := range sandboxes {
		uidOfSandbox[s.ID] = s.UID
		pod := byUID[s.UID]
		if pod == nil {
			pod = &Pod{UID: s.UID, Namespace: s.Namespace, Name: s.Name, Exists: true}
			byUID[s.UID] = pod
		}
		//guard: the annotations of the sandbox that runs count
		if s.Ready || !pod.Ready {
			// The pod may have had other annotations when a sandbox that has ended was made.
			pod.annotations = annotations{s.Origin, s.Requested}
		}
		pod.Ready = pod.Ready || s.Ready
	}
	of := map[string][]cri.Container{}
	for _, c := range containers {
		uid, ok := uidOfSandbox[c.SandboxID]
		if ok {
			of[uid] = append(of[uid], c)
		}
	}
	return byUID, of
}

// gone returns a Pod for each slice of a partition whose pod the runtime does not list. answers
// means that the kubelet reports its pods.
func (r *reading) gone(found podCgroups, answers bool) []Pod {
	var pods []Pod
	reported := map[string]bool{}
	//guard: the list of a kubelet that is gone keeps no scope
	if answers && len(found) > 0 { // what a kubelet that is gone has reported says nothing about now
		for uid := range r.known {
			reported[partition.EscapeUID(string(uid))] = true
		}
	}
	for escaped, all := range found {
		for _, slice := range all {
			if slice.Partition == partition.Default {
				continue
			}
			pod := leftOver(escaped, slice, all)
			r.addForgotten(&pod, slice.PodCgroup, hasDefault(all) || reported[escaped])
			pods = append(pods, pod)
		}
	}
	return pods
}

// lacking reports whether a pod is without the slice that it should have, or a container without a
// scope.
func lacking(pods map[string]*Pod, of map[string][]cri.Container, found podCgroups) bool {
	for uid, pod := range pods {
		all := found[partition.EscapeUID(uid)]
		if pod.Ready && !hasDefault(all) {
			return true
		}
		scopes := scopesIn(all)
		for _, c := range of[uid] {
			if c.State == cri.Running && len(scopes[c.ID]) == 0 {
				return true
			}
		}
	}
	return false
}

// leftOver returns a Pod for a slice of a partition whose pod is gone, or is in another slice now.
// all has its other slices: the kubelet may still have its own slice of the pod.
func leftOver(escapedUID string, slice foundSlice, all []foundSlice) Pod {
	defaultSlice := partition.PodSlice(partition.Default, slice.qos, escapedUID)
	return Pod{
		UID:        escapedUID,
		QoS:        slice.qos,
		Partitions: []PodCgroup{slice.PodCgroup},
		DefaultCgroup: PodCgroup{
			Partition: partition.Default,
			Slice:     defaultSlice,
			Exists:    slices.ContainsFunc(all, func(s foundSlice) bool { return s.Slice == defaultSlice }),
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
func (r *reading) complete(
	ctx context.Context, pod *Pod, found []foundSlice, containers []cri.Container,
) ([]Pod, error) {
	known := r.known[types.UID(pod.UID)]
	left := r.slicesOf(pod, found, known, containers)
	if err := r.readLimits(pod); err != nil {
		return nil, err
	}
	pod.reported(known)
	if known == nil {
		pod.Annotated = pod.Annotated.Without(func(name string) bool { return hasEnded(name, containers) })
	}
	scopes := scopesIn(found)
	for _, c := range containers {
		container := r.locate(ctx, pod, c, scopes[c.ID])
		if known != nil {
			container.reported(known)
		} else if err := r.estimate(ctx, pod, &container); err != nil {
			return nil, err
		}
		r.inspect(&container)
		for _, unit := range []string{container.Unit, container.AlsoUnit} {
			if c.State == cri.Exited && partition.IsLiveMoved(unit) {
				pod.Orphans = append(pod.Orphans, unit)
			}
		}
		pod.Containers = append(pod.Containers, container)
	}
	slices.SortFunc(
		pod.Containers,
		func(a, b Container) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) },
	)
	for _, c := range pod.Partitions {
		r.addForgotten(pod, c, true)
	}
	if pod.DefaultCgroup.Exists &&
		slices.ContainsFunc(pod.Partitions, func(c PodCgroup) bool { return len(liveMoved(c.Units)) > 0 }) {
		pod.DefaultCgroup.Bytes = r.own(pod.DefaultCgroup)
	}
	for i := range pod.Partitions {
		if c := &pod.Partitions[i]; c.Exists && len(c.Units) == 0 {
			c.Bytes = r.own(*c)
		}
	}
	return left, nil
}

// slicesOf adds the slices of a pod, without their limits. It returns slices of another class.
func (r *reading) slicesOf(pod *Pod, found []foundSlice, known *kubelet.Pod, containers []cri.Container) []Pod {
	reported := v1.PodQOSClass("")
	if known != nil {
		reported = known.QoS
	}
	defaultSlice, inDefault := choose(found, reported)
	switch {
	case inDefault:
		pod.QoS = defaultSlice.qos // where the kubelet has put it is decisive
	case reported != "":
		pod.QoS = reported
	case len(found) > 0:
		pod.QoS = found[0].qos
	}
	pod.DefaultCgroup = PodCgroup{
		Partition: partition.Default, Slice: partition.PodSlice(partition.Default, pod.QoS, pod.UID),
		Exists: inDefault, Units: defaultSlice.Units,
	}
	pod.Partitions = make([]PodCgroup, len(r.partitions))
	for i, p := range r.partitions {
		pod.Partitions[i] = PodCgroup{Partition: p, Slice: partition.PodSlice(p, pod.QoS, pod.UID)}
	}
	var left []Pod
	for _, s := range found {
		switch {
		case s.Partition == partition.Default:
		case s.qos == pod.QoS:
			*pod.find(s.Partition) = s.PodCgroup
		default:
			other := leftOver(partition.EscapeUID(pod.UID), s, found)
			other.Orphans = ended(s.Units, containers)
			left = append(left, other)
		}
	}
	return left
}

// readLimits adds the limits of a pod's slices.
func (r *reading) readLimits(pod *Pod) error {
	if err := r.limitsOf(&pod.DefaultCgroup); err != nil {
		return err
	}
	for i := range pod.Partitions {
		if err := r.limitsOf(&pod.Partitions[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) limitsOf(slice *PodCgroup) error {
	if !slice.Exists {
		return nil
	}
	limits, err := r.Cgroups.Limits(partition.CgroupPath(slice.Slice))
	if errors.Is(err, fs.ErrNotExist) {
		slice.Exists = false
		return nil
	}
	slice.Limits = limits
	return err
}

// choose returns the slice in the default partition of the class, or the first one if none has that
// class.
func choose(found []foundSlice, q v1.PodQOSClass) (foundSlice, bool) {
	if !hasDefault(found) {
		return foundSlice{}, false
	}
	i := slices.IndexFunc(found, func(s foundSlice) bool { return s.Partition == partition.Default && s.qos == q })
	return found[max(i, 0)], true
}

// own returns the memory that is charged to a pod's slice itself and not to a cgroup in it.
func (g *Gatherer) own(slice PodCgroup) uint64 {
	path := partition.CgroupPath(slice.Slice)
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

// podCgroups finds the slices of pods in all partitions. It ignores other cgroups.
func (r *reading) podCgroups() (podCgroups, error) {
	found := podCgroups{}
	if err := r.podCgroupsIn(partition.Default, found); err != nil {
		return nil, err
	}
	for _, p := range r.partitions {
		if err := r.podCgroupsIn(p, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// podCgroupsIn adds the slices of pods in a partition to found.
func (r *reading) podCgroupsIn(p partition.Name, found podCgroups) error {
	for _, q := range []v1.PodQOSClass{v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort} {
		parent := partition.CgroupPath(partition.QoSSlice(p, q))
		names, err := r.Cgroups.Children(parent)
		if err != nil {
			return err
		}
		for _, name := range names {
			in, qos, uid, ok := partition.ParsePodSlice(name)
			if !ok || in != p || qos != string(q) {
				continue
			}
			units, err := r.Cgroups.Children(parent + "/" + name)
			if err != nil {
				return err
			}
			found[uid] = append(found[uid], foundSlice{PodCgroup{Partition: p, Slice: name, Exists: true, Units: units}, q})
		}
	}
	return nil
}

// Snapshot reads the node, with the rules of a policy. The results of earlier passes (moves,
// orders, the formula) are not in it.
func (g *Gatherer) Snapshot(ctx context.Context, c Policy, rules partition.Rules, nri NRIState) (Snapshot, error) {
	pods, err := g.pods(ctx, c.names())
	if err != nil {
		return Snapshot{}, err
	}
	weights, protected := g.slices(c.names())
	return Snapshot{
		Config: c, Rules: rules, Pods: pods, NRI: nri, KubeletAnswers: g.forgotten.answers,
		Weights: weights, Protected: protected, Formula: admission.LinearWeight, Runtime: admission.LinearWeight,
	}, nil
}

// slices returns the present weights of the partitions' slices, and their protected memory.
func (g *Gatherer) slices(
	partitions []partition.Name,
) (weights map[string]uint64, protected map[string]cgroups.Protection) {
	weights, protected = map[string]uint64{}, map[string]cgroups.Protection{}
	for _, p := range partitions {
		for _, slice := range []string{p.Slice(), partition.QoSSlice(p, v1.PodQOSBurstable)} {
			if limits, err := g.Cgroups.Limits(partition.CgroupPath(slice)); err == nil {
				weights[slice], protected[slice] = limits.CPUWeight, limits.Protection
			}
		}
	}
	return weights, protected
}
