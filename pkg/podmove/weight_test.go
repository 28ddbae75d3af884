package podmove

import (
	"slices"
	"testing"

	"node-partition.io/node-partition/internal/admission"
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
		present admission.WeightFormula
		want    admission.WeightFormula
	}{
		"nothing seen":              {nil, admission.LinearWeight, admission.LinearWeight},
		"nothing seen any more":     {nil, admission.QuadraticWeight, admission.QuadraticWeight},
		"linear":                    {[]Pod{kubelets("a", 12)}, admission.LinearWeight, admission.LinearWeight},
		"the kubelet was upgraded":  {[]Pod{kubelets("a", 40)}, admission.LinearWeight, admission.QuadraticWeight},
		"the kubelet was put back":  {[]Pod{kubelets("a", 12)}, admission.QuadraticWeight, admission.LinearWeight},
		"a resize is under way":     {[]Pod{kubelets("a", 77)}, admission.QuadraticWeight, admission.QuadraticWeight},
		"requests are approximated": {[]Pod{kubelets("a", 40, unreported)}, admission.LinearWeight, admission.LinearWeight},
		"marked terminating by an eviction": {
			[]Pod{kubelets("a", 40, unreported, (*Pod).terminate)}, admission.LinearWeight, admission.LinearWeight,
		},
		"its slice is not there": {
			[]Pod{kubelets("a", 40, func(p *Pod) { p.DefaultCgroup.Exists = false })}, admission.LinearWeight, admission.LinearWeight,
		},
		"no request": {
			[]Pod{kubelets("a", 1), pod("b", partition.Default, func(p *Pod) { p.MilliCPU, p.DefaultCgroup.Limits.CPUWeight = 0, 1 })},
			admission.QuadraticWeight, admission.QuadraticWeight,
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
	for _, present := range []admission.WeightFormula{admission.LinearWeight, admission.QuadraticWeight} {
		for shift := range pods {
			if got := kubeletFormula(slices.Concat(pods[shift:], pods[:shift]), present); got.Name != present.Name {
				t.Errorf("formula %q has become %q", present.Name, got.Name)
			}
		}
	}
}
