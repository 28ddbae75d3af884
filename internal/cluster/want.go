package cluster

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
)

// wantedStatus returns the labels and the condition that the Node is to have.
func (k *Keeper) wantedStatus(now time.Time) kubeapi.Node {
	if k.options.Facts == nil {
		return kubeapi.Node{}
	}
	facts, on := k.options.Facts()
	if !on {
		return kubeapi.Node{}
	}
	want := kubeapi.Node{Labels: map[string]string{}, Ready: k.settled(k.ofBoot(judge(facts)), now)}
	for name, value := range map[string]string{
		partition.VersionLabel: partition.VersionValue(k.options.Version),
		partition.SectionLabel: partition.SectionValue(facts.Section),
	} {
		if value != "" {
			want.Labels[name] = value
		}
	}
	return want
}

// ofBoot adds the boot to the message of a condition, so that a reader sees whether it is the
// present one.
func (k *Keeper) ofBoot(c v1.NodeCondition) *v1.NodeCondition {
	if k.options.Boot != "" {
		c.Message += k.boot()
	}
	return &c
}

func (k *Keeper) boot() string { return "; boot " + k.options.Boot }

// isOfBoot reports whether a condition, which may be nil, was written in the present boot.
func (k *Keeper) isOfBoot(c *v1.NodeCondition) bool {
	return c != nil && k.options.Boot != "" && strings.HasSuffix(c.Message, k.boot())
}

// settled returns the readiness c, or the last value while c has not lasted long enough.
func (k *Keeper) settled(c *v1.NodeCondition, now time.Time) *v1.NodeCondition {
	last := k.status.last.Ready
	if last == nil {
		return c
	}
	switch {
	case same(*c, *last):
		k.differs = time.Time{}
	case k.differs.IsZero():
		k.differs = now
	}
	//guard: a value that is worse lasts for a minute before it is on the Node
	if c.Status == v1.ConditionTrue || now.Sub(k.differs) >= settle {
		return c
	}
	stays := *last
	return &stays
}

// same reports whether two conditions differ in their times alone.
func same(a, b v1.NodeCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// stamp sets the times of a condition, which may be nil, after the last one.
func stamp(c, last *v1.NodeCondition, now time.Time) {
	if c == nil {
		return
	}
	c.LastHeartbeatTime = metav1.NewTime(now).Rfc3339Copy()
	if c.LastTransitionTime = c.LastHeartbeatTime; last != nil && last.Status == c.Status {
		c.LastTransitionTime = last.LastTransitionTime
	}
}

// milli is the number of thousandths of a CPU in a CPU.
const milli = 1000

// wantedCores returns the resources that the Node is to have, and false if the CPUs are not known.
// Their capacity is all online CPUs of the node, whichever a process of this program may use, and
// whichever the partition has: the pods share them by weight, and more may be requested than there
// are.
//
// A value is not lowered: a kubelet that restarts compares the requests of running pods with it,
// and fails those that do not fit. For the same reason a resource is removed and never set to zero:
// the kubelet ignores a request for a resource that its Node does not have
// (removeMissingExtendedResources, pkg/kubelet/lifecycle/predicate.go, v1.37.0).
func (k *Keeper) wantedCores() (kubeapi.Node, bool) {
	if len(k.types) == 0 {
		return kubeapi.Node{}, true
	}
	cpus, err := config.OnlineCPUs(k.options.Root)
	if err != nil {
		k.cores.said.Warn(k.options.Log, err, "the resources of workload types are not written: the CPUs of the node are not known")
	}
	//guard: a resource is not lowered while this program runs
	k.milli = max(k.milli, int64(cpus.Size())*milli)
	want := kubeapi.Node{Cores: map[string]int64{}}
	for _, one := range k.types {
		want.Cores[one] = k.milli
	}
	//guard: a resource is not set to zero
	return want, k.milli > 0
}
