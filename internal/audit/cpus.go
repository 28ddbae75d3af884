package audit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"nodepartition/internal/unitname"
)

const (
	// static is the policy of the CPU manager that assigns CPUs to containers.
	static = "static"
	// strictReservation keeps the reserved CPUs from all containers that are not assigned any.
	strictReservation = "strict-cpu-reservation"
)

// partitionAudit is the audit of one partition.
type partitionAudit struct {
	*audit
	Section
}

// partitionCPUs checks that the CPUs of each partition are its own: no user pod runs on them, and
// no member has others that then idle.
func (a *audit) partitionCPUs() {
	for _, section := range a.Partitions {
		p := partitionAudit{a, section}
		if p.CPUs.IsEmpty() {
			continue
		}
		p.exclusiveMembers()
		//guard: CPUs that are handed out already are found once
		if !p.sharedReservation() && !p.userPods() {
			p.handedOut() // what is so counts before what may come
		}
	}
}

// exclusiveMembers finds members that the static policy assigns CPUs to: Guaranteed containers that
// request whole CPUs. Assigned CPUs are never reserved ones. The partition holds its members to its
// own CPUs, so the assigned ones idle, and no other container may use them.
func (a *partitionAudit) exclusiveMembers() {
	if a.Kubelet == nil || a.Kubelet.CPUManagerPolicy != static {
		return
	}
	for _, pod := range a.settled() {
		if !a.member(pod) || pod.Status.QOSClass != unitname.Guaranteed {
			continue
		}
		for _, c := range a.running(pod) {
			text := a.Cgroups[c.scope][cpusetCPUs]
			set, err := cpuset.Parse(text)
			if !wholeCPUs(c.spec) || err != nil || set.IsSubsetOf(a.CPUs) {
				continue
			}
			a.add(Finding{
				Severity: warning, Path: file(c.scope, cpusetCPUs), Value: text, Expected: a.CPUs.String(),
				Why: fmt.Sprintf("the static CPU manager assigns the CPUs %s to container %s of the member %s/%s alone. It runs on the partition's CPUs, "+
					"so the assigned ones idle, and no other pod may use them", set.Difference(a.CPUs), c.spec.Name, pod.Namespace, pod.Name),
				Document: docCPUs,
				Cure:     "set a CPU request of the container that is not a whole number, such as 1001m in place of 1",
			})
		}
	}
}

// handedOut finds CPUs of the partition that the static policy may assign to a container of a user:
// it assigns CPUs that are not reserved. Only flags of the kubelet lead to this, because a section
// beside such a configuration file is refused.
func (a *partitionAudit) handedOut() {
	k := a.Kubelet
	if k == nil || k.CPUManagerPolicy != static {
		return
	}
	reserved, err := cpuset.Parse(k.ReservedSystemCPUs)
	outside := a.CPUs.Difference(reserved)
	if err != nil || outside.IsEmpty() {
		return
	}
	consequence := "members run on them, too"
	if a.Exclusive {
		consequence = "it is kept off them, and runs where other pods run"
	}
	a.add(Finding{
		Severity: warning, Path: k.Source + ": reservedSystemCPUs",
		Value: orUnset(k.ReservedSystemCPUs), Expected: reserved.Union(a.CPUs).String(),
		Why: fmt.Sprintf("the static CPU manager may assign the CPUs %s of the partition to a Guaranteed container of a user alone: %s",
			outside, consequence),
		Document: docCPUs,
		Cure:     fmt.Sprintf(`set reservedSystemCPUs: "%s"; then %s`, reserved.Union(a.CPUs), a.restart()),
	})
}

// wholeCPUs reports whether a container requests whole CPUs (guaranteedCPUs,
// pkg/kubelet/cm/cpumanager/policy_static.go).
func wholeCPUs(c *v1.Container) bool {
	request := c.Resources.Requests.Cpu()
	return request.Value() > 0 && request.Value()*1000 == request.MilliValue()
}

// sharedReservation finds a static policy that lets user pods onto the reserved CPUs, among which
// are the partition's.
func (a *partitionAudit) sharedReservation() bool {
	k := a.Kubelet
	if k == nil || k.CPUManagerPolicy != static || k.CPUManagerPolicyOptions[strictReservation] == "true" {
		return false
	}
	reserved, err := cpuset.Parse(k.ReservedSystemCPUs)
	if shared := reserved.Intersection(a.CPUs); err != nil || shared.IsEmpty() {
		return false
	}
	consequence := "it runs all other user pods on them"
	if a.Exclusive {
		consequence = "it counts on them for user pods, which are kept off. When it has assigned all other CPUs, " +
			"user pods run on those that it has assigned"
	}
	a.add(Finding{
		Severity: warning, Path: k.Source + ": cpuManagerPolicyOptions." + strictReservation,
		Value: orUnset(k.CPUManagerPolicyOptions[strictReservation]), Expected: "true",
		Why: fmt.Sprintf("the partition has the CPUs %s of reservedSystemCPUs. The static CPU manager does not assign them to containers. "+
			"Without this option %s", a.CPUs, consequence),
		Document: docCPUs,
		Cure:     "set " + strictReservation + `: "true" in cpuManagerPolicyOptions; then ` + a.restart(),
	})
	return true
}

// restart returns the words for a restart of the kubelet with another CPU manager. It does not
// start with the state of another policy. Without that state it may assign CPUs on which containers
// run already, so the node is drained first
// (kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies).
func (a *audit) restart() string {
	const state = "/var/lib/kubelet/cpu_manager_state"
	if a.Kubelet == nil { // k3s and RKE2: there is no kubelet.service
		return "drain the node, stop the service that runs the kubelet, remove " + state + ", and start the service"
	}
	return "drain the node; then systemctl stop kubelet.service && rm -f " + state + " && systemctl start kubelet.service"
}

func orUnset(text string) string {
	if text == "" {
		return "not set"
	}
	return text
}

// userPods finds containers of user pods that may run on the partition's CPUs. One finding stands
// for all of them. It reports whether there are any.
func (a *partitionAudit) userPods() bool {
	var first *Finding
	containers := 0
	for _, pod := range a.settled() {
		if a.member(pod) {
			continue
		}
		for _, c := range a.running(pod) {
			text, ok := a.Cgroups[c.scope][effective]
			set, err := cpuset.Parse(text)
			if !ok || err != nil || set.Intersection(a.CPUs).IsEmpty() {
				continue
			}
			containers++
			if path := file(c.scope, effective); first == nil || path < first.Path {
				first = &Finding{Path: path, Value: text, Expected: a.Node.CPUs.Difference(a.CPUs).String()}
			}
		}
	}
	if first == nil {
		return false
	}
	first.Severity, first.Document = warning, docPartition
	first.Why = fmt.Sprintf("the partition's cpuset is %s, and %d containers of user pods may run there too. "+
		"exclusive: true in its section keeps them off; so does the static CPU manager with %s", a.CPUs, containers, strictReservation)
	first.Cure = fmt.Sprintf(`set exclusive: true in the section, and systemctl daemon-reload; or set cpuManagerPolicy: static, `+
		`reservedSystemCPUs: "%s" and cpuManagerPolicyOptions: {%s: "true"}; then %s`, a.CPUs, strictReservation, a.restart())
	a.add(*first)
	return true
}
