package evict

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestNewEviction: the journal, the API server and the next run get the values that
// the decision was made from.
func TestNewEviction(t *testing.T) {
	victim := Pod{
		PodMeta: PodMeta{
			UID: "uid", Namespace: "kube-system", Name: "a", QoS: v1.PodQOSBurstable, Owner: "kube-system/daemons",
			Cgroup: "a.slice", Priority: 7, Estimated: true, EndsForGood: true,
		},
		Request: 100 * mi, Usage: Usage{WorkingSet: 500 * mi, Used: 480 * mi},
		Measured: true, GracePeriod: 5 * time.Second,
		Containers: []Container{
			{ID: "1", Name: "main", Cgroup: "a.slice/1.scope", Request: 60 * mi, WorkingSet: 400 * mi},
		},
	}
	record := Eviction{
		PodMeta: PodMeta{
			UID: "uid", Namespace: "kube-system", Name: "a", QoS: v1.PodQOSBurstable, Owner: "kube-system/daemons",
			Cgroup: "a.slice", Priority: 7, Estimated: true, EndsForGood: true,
		},
		Verdict: Verdict{Time: noon, OutsideGrace: 5 * time.Second},
		Amounts: Amounts{WorkingSetBytes: 500 * mi, RequestBytes: 100 * mi, LimitBytes: 1000 * mi, UsedBytes: 480 * mi},
		Containers: []Container{{
			ID: "1", Name: "main", Cgroup: "a.slice/1.scope", Request: 60 * mi, WorkingSet: 400 * mi,
		}},
	}
	for name, test := range map[string]struct {
		snapshot Situation
		change   func(*Situation)
		want     func(*Eviction)
	}{
		"hard": {snapshotOf(50, victim), nil, func(e *Eviction) {
			e.Threshold, e.Method, e.AvailableBytes, e.AtBytes = Hard, Evict, 50*mi, 100*mi
		}},
		"soft": {softly(snapshotOf(150, victim)), nil, func(e *Eviction) {
			e.Threshold, e.Method, e.Grace = Soft, Evict, 5*time.Second
			e.AvailableBytes, e.AtBytes = 150*mi, 200*mi
		}},
		// A pod that is only restarted is not reported to the API server.
		"restarted": {snapshotOf(50, victim), func(s *Situation) { s.API = false }, func(e *Eviction) {
			e.Threshold, e.Method, e.Reported, e.AvailableBytes, e.AtBytes = Hard, Restart, true, 50*mi, 100*mi
		}},
		"dry run": {snapshotOf(50, victim), func(s *Situation) { s.Config.DryRun = true }, func(e *Eviction) {
			e.Threshold, e.Method, e.DryRun, e.AvailableBytes, e.AtBytes = Hard, Evict, true, 50*mi, 100*mi
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, want := test.snapshot, record
			if test.change != nil {
				test.change(&s)
			}
			test.want(&want)
			s.Ownerless = 7 * mi
			want.PartitionBytes, want.OwnerlessBytes = s.Memory.Used(), s.Ownerless
			if got := newEviction(s, Decide(s)); !reflect.DeepEqual(got, want) {
				t.Errorf("eviction is %+v, want %+v", got, want)
			}
		})
	}
}
