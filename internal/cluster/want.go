package cluster

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
)

// wanted returns what the Node is to have.
func (k *Keeper) wanted(now time.Time) node.Written {
	want := node.Written{Labels: map[string]string{}, Conditions: map[v1.NodeConditionType]v1.NodeCondition{}}
	if k.options.Facts != nil {
		if facts, on := k.options.Facts(); on {
			for name, value := range map[string]string{
				partition.VersionLabel: partition.VersionValue(k.options.Version),
				partition.SectionLabel: partition.SectionValue(facts.Section),
			} {
				if value != "" {
					want.Labels[name] = value
				}
			}
			want.Conditions[kubeapi.Ready] = k.settled(k.ofBoot(judge(facts)), now)
		}
	}
	return want
}

// ofBoot adds the boot to the message of a condition, so that a reader sees whether it is the
// present one.
func (k *Keeper) ofBoot(c v1.NodeCondition) v1.NodeCondition {
	if k.options.Boot != "" {
		c.Message += "; boot " + k.options.Boot
	}
	return c
}

// settled returns the readiness c, or the last value while c has not lasted long enough.
func (k *Keeper) settled(c v1.NodeCondition, now time.Time) v1.NodeCondition {
	last := k.written.Conditions[kubeapi.Ready]
	switch {
	case same(c, last):
		k.differs = time.Time{}
	case k.differs.IsZero():
		k.differs = now
	}
	//guard: a value that is worse lasts for a minute before it is on the Node
	//guard: after a boot the condition is written at once, whatever it is
	if last.Status == "" || c.Status == v1.ConditionTrue || now.Sub(k.differs) >= settle {
		return c
	}
	return last
}

// same reports whether two conditions differ in their times alone.
func same(a, b v1.NodeCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// isDue reports whether want is to be written now.
func (k *Keeper) isDue(want node.Written, now time.Time) bool {
	return !k.looked || !maps.Equal(want.Labels, k.written.Labels) ||
		!maps.EqualFunc(want.Conditions, k.written.Conditions, same) ||
		len(want.Conditions)+len(k.types) > 0 && !now.Before(k.beat)
}
