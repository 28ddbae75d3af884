package daemon

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// texts returns the events of a partition with their numbers, the newest last.
func (h *happenings) texts(partition unitname.PartitionName) []string {
	events := h.of(partition)
	list := make([]string, 0, len(events))
	for _, e := range events {
		list = append(list, fmt.Sprintf("%d %t %s", e.Times, e.Bad, e.Text))
	}
	return list
}

// TestHappenings: the last events of each partition are remembered, equal ones once.
func TestHappenings(t *testing.T) {
	t.Parallel()
	var h happenings
	for i := range 40 {
		h.add(unitname.System, false, 1, fmt.Sprint(i))
	}
	h.add(unitname.System, true, 2, "20")
	h.add("telemetry", true, 3, "killed")
	got := h.texts(unitname.System)
	if len(got) != mostHappened || got[0] != "1 false 8" || got[len(got)-1] != "3 true 20" || slices.Contains(got, "1 false 20") {
		t.Errorf("%q", got)
	}
	if got := h.texts("telemetry"); !slices.Equal(got, []string{"3 true killed"}) {
		t.Errorf("%q", got)
	}
	h.forget("telemetry")
	if got := h.of("telemetry"); len(got) > 0 {
		t.Errorf("%v of a partition that is gone", got)
	}
}

// TestHappenedPlacements: what moves pods is remembered for the partition that it concerns, and
// placements at a creation are not.
func TestHappenedPlacements(t *testing.T) {
	t.Parallel()
	var h happenings
	move := &podmove.Move{Namespace: "kube-system", Name: "dns"}
	in := podmove.Container{Slice: "kubepods-telemetry-pod0a1b2c3d_0000_4000_8000_000000000001.slice"}
	for _, p := range []podmove.Placement{
		{Method: podmove.Creation, To: unitname.System},
		{Method: podmove.Creation, To: unitname.System, Err: errors.New("no slice")},
		{Method: podmove.Restart, To: unitname.System, Move: move},
		{Method: podmove.Live, To: unitname.System, Move: move, Err: podmove.ErrInVain},
		{Method: podmove.Live, To: unitname.Default, Move: move, Container: in},
	} {
		h.placed(p)
	}
	want := []string{
		"1 true A container was not placed at its creation: no slice",
		"1 false kube-system/dns was restarted to be in partition system.",
		"1 true kube-system/dns was not moved to partition system: " + podmove.ErrInVain.Error(),
	}
	if got := h.texts(unitname.System); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := h.texts("telemetry"); !slices.Equal(got, []string{"1 false kube-system/dns was moved live to partition default."}) {
		t.Errorf("%q", got)
	}
}

// TestEvictionHappened: faults of evictions are remembered. Evictions are not, because their state
// has them, and neither are polls that fail, of which there are many.
func TestEvictionHappened(t *testing.T) {
	t.Parallel()
	var h happenings
	e := evictionHappened{happened: &h, partition: unitname.System}
	of := evict.Eviction{PodMeta: evict.PodMeta{UID: "1", Namespace: "kube-system", Name: "dns"}}
	e.Evicting(of, 1)
	e.Evicted(of, 1)
	e.Failed(evict.Eviction{}, evict.StepPoll, errors.New("gone"))
	e.Failed(evict.Eviction{}, evict.StepState, errors.New("full"))
	e.Failed(of, evict.StepStop, errors.New("no answer"))
	e.NoCandidate(evict.Decision{})
	e.NoCandidate(evict.Decision{})
	e.KernelKilled(evict.AtPod, 1)
	e.KernelKilled(evict.AtPartition, 3)
	want := []string{
		"1 true A step of the evictions failed (state): full",
		"1 true A step of the eviction of kube-system/dns failed (stop): no answer",
		"2 true A pod had to be evicted, and there was no candidate.",
		"1 true The kernel has killed a process at the limit of a pod, a container or the node.",
		"3 true The kernel has killed a process at the limit of the partition.",
	}
	if got := h.texts(unitname.System); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
