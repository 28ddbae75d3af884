package plan

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// replica is a pod of a workload on a node.
func replica(kind, owner, node string, ready v1.ConditionStatus) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, UID: types.UID(owner), Controller: ptr.To(true)}}},
		Spec:       v1.PodSpec{NodeName: node},
		Status:     v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready}}},
	}
}

func leaves(p *v1.Pod) *v1.Pod {
	p.DeletionTimestamp = new(metav1.Unix(1, 0))
	return p
}

// TestPick: nodes that have all ready replicas of a workload are not changed together.
func TestPick(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		replicas []*v1.Pod
		busy     []string
		free     int
		want     []string
	}{
		{"nothing runs there", nil, nil, 2, []string{"a", "b"}},
		{"two replicas", []*v1.Pod{replica("ReplicaSet", "dns", "a", "True"), replica("ReplicaSet", "dns", "b", "True")}, nil, 3, []string{"a", "c", "d"}},
		{"one of them changes", []*v1.Pod{replica("ReplicaSet", "dns", "a", "True"), replica("ReplicaSet", "dns", "b", "True")}, []string{"b"}, 2, []string{"c", "d"}},
		{"a third one elsewhere", []*v1.Pod{
			replica("ReplicaSet", "dns", "a", "True"), replica("ReplicaSet", "dns", "b", "True"), replica("ReplicaSet", "dns", "z", "True"),
		}, nil, 2, []string{"a", "b"}},
		{"a third one that is not ready", []*v1.Pod{
			replica("ReplicaSet", "dns", "a", "True"), replica("ReplicaSet", "dns", "b", "True"), replica("ReplicaSet", "dns", "z", "False"),
		}, nil, 2, []string{"a", "c"}},
		{"a third one that leaves", []*v1.Pod{
			replica("ReplicaSet", "dns", "a", "True"), replica("ReplicaSet", "dns", "b", "True"), leaves(replica("ReplicaSet", "dns", "z", "True")),
		}, nil, 2, []string{"a", "c"}},
		{"one of two leaves a node that changes", []*v1.Pod{
			replica("ReplicaSet", "dns", "a", "True"), leaves(replica("ReplicaSet", "dns", "b", "True")),
		}, []string{"b"}, 1, []string{"c"}},
		{"a single replica does not keep its node", []*v1.Pod{replica("ReplicaSet", "one", "a", "True")}, []string{"b"}, 1, []string{"a"}},
		{"a DaemonSet is on each node", []*v1.Pod{replica("DaemonSet", "net", "a", "True"), replica("DaemonSet", "net", "b", "True")}, nil, 2, []string{"a", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Replicas{}
			for _, p := range c.replicas {
				r.Add(p)
			}
			d := Decision{Free: c.free, Busy: c.busy}
			for _, n := range []string{"a", "b", "c", "d"} {
				if !slices.Contains(c.busy, n) {
					d.Starts = append(d.Starts, Start{Node: n, Mode: Apply})
				}
			}
			var got []string
			for _, s := range d.Pick(r) {
				got = append(got, s.Node)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q; want %q", got, c.want)
			}
		})
	}
}
