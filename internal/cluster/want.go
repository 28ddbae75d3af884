package cluster

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
)

// wanted returns what the Node is to have. A condition without a status stays as it is.
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
	if k.options.Memory != nil {
		if c, ok := k.pressure(now); ok {
			want.Conditions[kubeapi.Pressure] = c
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

// pressure returns the condition of the memory, and false if the Node is to have none.
func (k *Keeper) pressure(now time.Time) (v1.NodeCondition, bool) {
	report, is := k.options.Memory()
	if !is {
		k.read = now
		return v1.NodeCondition{}, false
	}
	if report.Time.IsZero() && now.Sub(k.read) < stale {
		// The first poll is about to end, or one has failed: the slice is created again.
		last, ok := k.written.Conditions[kubeapi.Pressure]
		return last, ok
	}
	if !report.Time.IsZero() {
		k.read = report.Time
	}
	if isLow(report) || report.NoCandidate {
		k.Pressed()
	}
	var pressed time.Time
	if at := k.pressed.Load(); at != nil {
		pressed = *at
	}
	return k.ofBoot(judgePressure(k.options.Partition, report, pressed, now)), true
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
