package kubelet

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestEndsWhenKilled: a container's own policy and its rules come before the policy of the pod, in
// both directions.
func TestEndsWhenKilled(t *testing.T) {
	t.Parallel()
	const always, onFailure, never = v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever
	own := func(policy v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) v1.Container {
		return v1.Container{Name: "c", RestartPolicy: &policy, RestartPolicyRules: rules}
	}
	rule := func(operator v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) v1.ContainerRestartRule {
		return v1.ContainerRestartRule{
			Action: v1.ContainerRestartRuleActionRestart, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes},
		}
	}
	const in, notIn = v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn
	inherits := v1.Container{Name: "c"}
	for name, test := range map[string]struct {
		pod       v1.RestartPolicy
		container v1.Container
		want      bool
	}{
		"Always":                          {v1.RestartPolicyAlways, inherits, false},
		"none":                            {"", inherits, false},
		"OnFailure":                       {v1.RestartPolicyOnFailure, inherits, false},
		"Never":                           {v1.RestartPolicyNever, inherits, true},
		"Never in Always":                 {v1.RestartPolicyAlways, own(never), true},
		"Always in Never":                 {v1.RestartPolicyNever, own(always), false},
		"OnFailure in Never":              {v1.RestartPolicyNever, own(onFailure), false},
		"Never, restarted after a kill":   {v1.RestartPolicyAlways, own(never, rule(in, 1, 137)), false},
		"Never, restarted after others":   {v1.RestartPolicyAlways, own(never, rule(in, 1, 2)), true},
		"Never, restarted but for others": {v1.RestartPolicyAlways, own(never, rule(notIn, 1, 2)), false},
		"Never, restarted but for kills":  {v1.RestartPolicyAlways, own(never, rule(notIn, 137)), true},
		"Never, a rule of another kind":   {v1.RestartPolicyAlways, own(never, v1.ContainerRestartRule{Action: "Restart"}), true},
	} {
		pod := newPod(&v1.Pod{Spec: v1.PodSpec{RestartPolicy: test.pod, Containers: []v1.Container{test.container}}})
		if got := pod.EndsWhenKilled(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}

	// One of several is enough, unless it has ended already or is for debugging.
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}, own(never)}}}
	if !newPod(pod).EndsWhenKilled() {
		t.Error("the second container stays ended")
	}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
	if newPod(pod).EndsWhenKilled() {
		t.Error("the second container has ended, and the first comes back")
	}
	debug := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger"}}
	if newPod(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}, EphemeralContainers: []v1.EphemeralContainer{debug}}}).EndsWhenKilled() {
		t.Error("a container for debugging keeps the pod from coming back")
	}
}
