package podmove

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"nodepartition/internal/podsapi"
	"nodepartition/internal/unitname"
)

// TestSharesOfMilliCPU checks both ends of the range: shares are rounded down to whole numbers, and
// are at least 2 and at most 262144.
func TestSharesOfMilliCPU(t *testing.T) {
	for _, test := range []struct {
		milli int64
		want  uint64
		why   string
	}{
		{math.MinInt64, 2, "less than nothing is nothing"},
		{-1, 2, "less than nothing is nothing"},
		{0, 2, "no request is the minimum"},
		{1, 2, "one share is less than the minimum"},
		{2, 2, "the first request that reaches the minimum"},
		{3, 3, "the first above it"},
		{100, 102, "a tenth of a CPU, cut to a whole number"},
		{1000, 1024, "one CPU"},
		{255_999, 262_142, "just below the maximum"},
		{256_000, 262_144, "256 CPUs are the maximum"},
		{256_001, 262_144, "more is not more"},
		{math.MaxInt64, 262_144, "and does not overflow"},
	} {
		if got := SharesOfMilliCPU(test.milli); got != test.want {
			t.Errorf("%dm is %d shares, want %d: %s", test.milli, got, test.want, test.why)
		}
	}
}

// TestFormulaWeight: both formulas map the range of shares, 2 to 262144, to that of weights, 1 to
// 10000, and differ in between.
func TestFormulaWeight(t *testing.T) {
	for _, test := range []struct {
		formula Formula
		weights map[uint64]uint64 // by shares
	}{
		{Linear, map[uint64]uint64{
			0: 1, 1: 1, 2: 1, // fewer than the minimum count as the minimum
			28: 1, 29: 2, // the first that differ
			307: 12, 716: 28, 1024: 39, // as the kubelet 1.36.3 for 300m, 700m and one CPU
			262_143: 9999, 262_144: 10000,
		}},
		{Quadratic, map[uint64]uint64{2: 1, 102: 17, 1024: 100, 262_144: 10000}},
	} {
		for shares, want := range test.weights {
			if got := test.formula.Weight(shares); got != want {
				t.Errorf("%s makes %d of %d shares, want %d", test.formula.Name, got, shares, want)
			}
		}
	}
}

// kubelets returns a pod of 300m whose slice the kubelet has given a weight.
func kubelets(uid string, weight uint64, change ...func(*Pod)) Pod {
	return pod(uid, unitname.Default, append(change, func(p *Pod) { p.MilliCPU, p.DefaultCgroup.Limits.CPUWeight = 300, weight })...)
}

// TestKubeletFormula: the weight that the kubelet wrote, 12 or 40 for 300m, identifies its formula.
func TestKubeletFormula(t *testing.T) {
	unreported := func(p *Pod) { p.Kubelet = nil }
	for name, test := range map[string]struct {
		pods    []Pod
		present Formula
		want    Formula
	}{
		"nothing seen":              {nil, Linear, Linear},
		"nothing seen any more":     {nil, Quadratic, Quadratic},
		"linear":                    {[]Pod{kubelets("a", 12)}, Linear, Linear},
		"the kubelet was upgraded":  {[]Pod{kubelets("a", 40)}, Linear, Quadratic},
		"the kubelet was put back":  {[]Pod{kubelets("a", 12)}, Quadratic, Linear},
		"a resize is under way":     {[]Pod{kubelets("a", 77)}, Quadratic, Quadratic},
		"requests are approximated": {[]Pod{kubelets("a", 40, unreported)}, Linear, Linear},
		"marked terminating by an eviction": {
			[]Pod{kubelets("a", 40, unreported, (*Pod).terminate)}, Linear, Linear,
		},
		"its slice is not there": {
			[]Pod{kubelets("a", 40, func(p *Pod) { p.DefaultCgroup.Exists = false })}, Linear, Linear,
		},
		"no request": {
			[]Pod{kubelets("a", 1), pod("b", unitname.Default, func(p *Pod) { p.MilliCPU, p.DefaultCgroup.Limits.CPUWeight = 0, 1 })},
			Quadratic, Quadratic,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kubeletFormula(test.pods, test.present); got.Name != test.want.Name {
				t.Errorf("formula %q, want %q", got.Name, test.want.Name)
			}
		})
	}
}

// TestKubeletFormulaTwoKubelets: slices of two kubelets leave the formula as it is, in whatever
// order they are found.
func TestKubeletFormulaTwoKubelets(t *testing.T) {
	pods := []Pod{kubelets("a", 12), kubelets("b", 40), kubelets("c", 77)}
	for _, present := range []Formula{Linear, Quadratic} {
		for shift := range pods {
			if got := kubeletFormula(slices.Concat(pods[shift:], pods[:shift]), present); got.Name != present.Name {
				t.Errorf("formula %q has become %q", present.Name, got.Name)
			}
		}
	}
}

// TestReconcilerWeightsFollowKubelet: the runtime's formula, which containers show, does not affect
// the partition's slices, whose siblings the kubelet writes.
func TestReconcilerWeightsFollowKubelet(t *testing.T) {
	n := newNode(t)
	n.cgroup(partitionA, map[string]string{"memory.max": "max"})
	if err := os.RemoveAll(filepath.Join(n.root, defaultA, "cri-containerd-one.scope")); err != nil {
		t.Fatal(err)
	}
	n.cgroup(partitionA+"/cri-containerd-one.scope", map[string]string{"cpu.weight": "17"})
	n.pods = map[types.UID]*podsapi.Pod{uidA: {UID: uidA, MilliCPU: 100}}
	for _, slice := range []string{"kubepods-system.slice", "kubepods-system-burstable.slice"} {
		n.cgroup(unitname.CgroupPath(slice), map[string]string{"cpu.weight": "100"})
	}
	r := NewReconciler()
	r.Placer = &fakePlacer{}
	r.Gatherer, r.NRI = n.gatherer(), func() NRIState { return Working }
	r.SetConfig(members)
	for range 20 {
		s, err := r.snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []WeightSpec{{"kubepods-system-burstable.slice", 4}, {"kubepods-system.slice", 4}}
		if got := Decide(s).Weights; !slices.Equal(got, want) {
			t.Fatalf("weights %+v, want %+v: the kubelet gave 100m the weight 4", got, want)
		}
	}
}
