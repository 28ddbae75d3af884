package cluster

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// TestJudgePressure: the condition by the last poll and the time since the last pressure.
func TestJudgePressure(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	read := evict.Report{Time: start}
	crossed, without := read, read
	crossed.Crossed = evict.Hard
	without.Crossed, without.NoCandidate = evict.Hard, true
	off := read
	off.Available, off.Hard = 1, 2
	for name, test := range map[string]struct {
		report  evict.Report
		pressed time.Duration // before now; 0 for never
		now     time.Duration // after start
		want    v1.ConditionStatus
		reason  string
	}{
		"enough":               {read, 0, time.Second, v1.ConditionFalse, reasonEnough},
		"crossed":              {crossed, time.Second, time.Second, v1.ConditionTrue, reasonLow},
		"low, eviction is off": {off, time.Second, time.Second, v1.ConditionTrue, reasonLow},
		"no candidate":         {without, time.Second, time.Second, v1.ConditionTrue, reasonNoCandidate},
		"back for a moment":    {read, calm - time.Second, time.Second, v1.ConditionTrue, reasonLow},
		"back for long":        {read, calm, time.Second, v1.ConditionFalse, reasonEnough},
		"not read":             {evict.Report{}, 0, time.Second, v1.ConditionUnknown, reasonUnread},
		"not read any more":    {read, 0, stale + time.Second, v1.ConditionUnknown, reasonUnread},
		"pressed and not read": {evict.Report{}, time.Second, time.Second, v1.ConditionTrue, reasonLow},
	} {
		now, pressed := start.Add(test.now), time.Time{}
		if test.pressed > 0 {
			pressed = now.Add(-test.pressed)
		}
		if got := judgePressure(partition.System, test.report, pressed, now); got.Status != test.want || got.Reason != test.reason || got.Type != kubeapi.Pressure || got.Message == "" {
			t.Errorf("%s: %+v; want %s, %s", name, got, test.want, test.reason)
		}
	}
}
