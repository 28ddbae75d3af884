package check

import (
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

const (
	// static is the policy of the CPU manager that assigns CPUs to containers.
	static = "static"
	// strictReservation keeps the reserved CPUs from all containers that are not assigned any.
	strictReservation = "strict-cpu-reservation"
)

// cpuManager checks that the CPUs of each partition are its own: no user pod runs on them, and no
// member has others that then idle.
func (t *tree) cpuManager() {
	for i := range t.partitions {
		p := &t.partitions[i]
		if p.CPUs.IsEmpty() {
			continue
		}
		t.exclusiveMembers(p)
		if !t.sharedReservation(p) {
			t.userPods(p)
		}
	}
}

// container is a running container with its scope.
type container struct {
	pod   *v1.Pod
	spec  *v1.Container
	scope string
}

// containers returns the running containers of the pods of some partitions, or of none, which is
// partition.Default.
func (t *tree) containers(counts func(partition.Name) bool) []container {
	var list []container
	for _, pod := range t.pods {
		of := t.members.Partition(partition.Pod{
			Namespace: pod.Namespace, Guaranteed: pod.Status.QOSClass == v1.PodQOSGuaranteed,
			Origin: partition.OriginOf(pod.Annotations),
		})
		if pod.Status.Phase != v1.PodRunning || pod.DeletionTimestamp != nil || !counts(of) {
			continue
		}
		specs := slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
		for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			at := slices.IndexFunc(specs, func(c v1.Container) bool { return c.Name == status.Name })
			if scope := t.scopes[id]; scope != "" && at >= 0 && status.State.Running != nil {
				list = append(list, container{pod, &specs[at], scope})
			}
		}
	}
	return list
}

// exclusiveMembers finds members that the static policy assigns CPUs to: Guaranteed containers that
// request whole CPUs (guaranteedCPUs, pkg/kubelet/cm/cpumanager/policy_static.go). Assigned CPUs
// are never reserved ones. The partition holds its members to its own CPUs, so the assigned ones
// idle.
func (t *tree) exclusiveMembers(p *config.Partition) {
	if t.kubelet.Kubelet.CPUManagerPolicy != static {
		return
	}
	for _, c := range t.containers(func(of partition.Name) bool { return of == p.Name }) {
		text := t.cgroups[c.scope][cpusetCPUs]
		set, err := cpuset.Parse(text)
		request := c.spec.Resources.Requests.Cpu()
		whole := request.Value() > 0 && request.Value()*1000 == request.MilliValue()
		if c.pod.Status.QOSClass != v1.PodQOSGuaranteed || !whole || err != nil || set.IsSubsetOf(p.CPUs) {
			continue
		}
		t.add(fileOf(c.scope, cpusetCPUs), text, p.CPUs.String(),
			"set a CPU request of the container that is not a whole number, such as 1001m in place of 1",
			"the static CPU manager assigns the CPUs %s to container %s of the member %s/%s alone. It runs on the partition's CPUs, "+
				"so the assigned ones idle, and no other pod may use them", set.Difference(p.CPUs), c.spec.Name, c.pod.Namespace, c.pod.Name)
	}
}

// sharedReservation finds a static policy that lets user pods onto the reserved CPUs, among which
// are the partition's.
func (t *tree) sharedReservation(p *config.Partition) bool {
	k := &t.kubelet.Kubelet
	if k.CPUManagerPolicy != static || k.CPUManagerPolicyOptions[strictReservation] == "true" {
		return false
	}
	reserved, err := cpuset.Parse(k.ReservedSystemCPUs)
	if err != nil || reserved.Intersection(p.CPUs).IsEmpty() {
		return false
	}
	consequence := "it runs all other user pods on them"
	if p.Exclusive {
		consequence = "it counts on them for user pods, which are kept off. When it has assigned all other CPUs, " +
			"user pods run on those that it has assigned"
	}
	const field = "cpuManagerPolicyOptions"
	t.add(t.kubelet.Config.FileWith(field)+": "+field+"."+strictReservation, k.CPUManagerPolicyOptions[strictReservation], "true",
		"set "+strictReservation+`: "true" in `+field+"; then "+restart(&t.kubelet),
		"the partition has the CPUs %s of reservedSystemCPUs. The static CPU manager does not assign them to containers. "+
			"Without this option %s", p.CPUs, consequence)
	return true
}

// restart returns the words for a restart of the kubelet with another CPU manager. It does not
// start with the state of another policy. Without that state it may assign CPUs on which containers
// run already, so the node is drained first
// (kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies).
func restart(kubelet *node.KubeletSettings) string {
	state := path.Join(kubelet.RootDir, "cpu_manager_state")
	if kubelet.From.KubeletPID == 0 { // k3s and RKE2: there is no kubelet.service
		return "drain the node, stop the service that runs the kubelet, remove " + state + ", and start the service"
	}
	return "drain the node; then systemctl stop kubelet.service && rm -f " + state + " && systemctl start kubelet.service"
}

// userPods finds containers of user pods that may run on the partition's CPUs. One finding stands
// for all of them.
func (t *tree) userPods(p *config.Partition) {
	var there []string
	// Partitions may share CPUs.
	others := func(of partition.Name) bool {
		return of != p.Name && !slices.ContainsFunc(t.partitions, func(other config.Partition) bool {
			return other.Name == of && !other.CPUs.Intersection(p.CPUs).IsEmpty()
		})
	}
	for _, c := range t.containers(others) {
		set, err := cpuset.Parse(t.cgroups[c.scope][effectiveCPUs])
		if err == nil && !set.Intersection(p.CPUs).IsEmpty() {
			there = append(there, c.scope)
		}
	}
	if len(there) == 0 {
		return
	}
	first := slices.Min(there)
	t.add(fileOf(first, effectiveCPUs), t.cgroups[first][effectiveCPUs], p.NodeCPUs.Difference(p.CPUs).String(),
		fmt.Sprintf(`set exclusive: true in the section, and systemctl daemon-reload; or set cpuManagerPolicy: static, `+
			`reservedSystemCPUs: "%s" and cpuManagerPolicyOptions: {%s: "true"}; then %s`,
			p.CPUs, strictReservation, restart(&t.kubelet)),
		"the partition's cpuset is %s, and %d containers of user pods may run there too. "+
			"exclusive: true in its section keeps them off; so does the static CPU manager with %s", p.CPUs, len(there), strictReservation)
}
