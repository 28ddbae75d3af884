package podmove

import (
	"slices"
	"testing"

	"node-partition.io/node-partition/internal/cpuweight"
	"node-partition.io/node-partition/internal/partition"
)

// kubelets returns a pod of 300m whose slice the kubelet has given a weight.
func kubelets(uid string, weight uint64, change ...func(*Pod)) Pod {
	return pod(uid, partition.Default, append(change, func(p *Pod) { p.MilliCPU, p.DefaultCgroup.Limits.CPUWeight = 300, weight })...)
}

// TestKubeletFormula: the weight that the kubelet wrote, 12 or 40 for 300m, identifies its formula.
func TestKubeletFormula(t *testing.T) {
	unreported := func(p *Pod) { p.Kubelet = nil }
	for name, test := range map[string]struct {
		pods    []Pod
		present cpuweight.Formula
		want    cpuweight.Formula
	}{
		"nothing seen":              {nil, cpuweight.Linear, cpuweight.Linear},
		"nothing seen any more":     {nil, cpuweight.Quadratic, cpuweight.Quadratic},
		"linear":                    {[]Pod{kubelets("a", 12)}, cpuweight.Linear, cpuweight.Linear},
		"the kubelet was upgraded":  {[]Pod{kubelets("a", 40)}, cpuweight.Linear, cpuweight.Quadratic},
		"the kubelet was put back":  {[]Pod{kubelets("a", 12)}, cpuweight.Quadratic, cpuweight.Linear},
		"a resize is under way":     {[]Pod{kubelets("a", 77)}, cpuweight.Quadratic, cpuweight.Quadratic},
		"requests are approximated": {[]Pod{kubelets("a", 40, unreported)}, cpuweight.Linear, cpuweight.Linear},
		"marked terminating by an eviction": {
			[]Pod{kubelets("a", 40, unreported, (*Pod).terminate)}, cpuweight.Linear, cpuweight.Linear,
		},
		"its slice is not there": {
			[]Pod{kubelets("a", 40, func(p *Pod) { p.DefaultCgroup.Exists = false })}, cpuweight.Linear, cpuweight.Linear,
		},
		"no request": {
			[]Pod{kubelets("a", 1), pod("b", partition.Default, func(p *Pod) { p.MilliCPU, p.DefaultCgroup.Limits.CPUWeight = 0, 1 })},
			cpuweight.Quadratic, cpuweight.Quadratic,
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
	for _, present := range []cpuweight.Formula{cpuweight.Linear, cpuweight.Quadratic} {
		for shift := range pods {
			if got := kubeletFormula(slices.Concat(pods[shift:], pods[:shift]), present); got.Name != present.Name {
				t.Errorf("formula %q has become %q", present.Name, got.Name)
			}
		}
	}
}
