package kubelet

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// killed is the exit status that runtimes report of a container that SIGKILL ended: 128 + 9.
const killed = 137

// restartsAfter reports whether the kubelet starts a container again that has ended with an exit
// status. It is the kubelet's ContainerShouldRestart (pkg/api/v1/pod/util.go, 1.37), where the
// rules and the policy of the container itself (KEP-5307) precede the pod's.
func restartsAfter(c *v1.Container, pod v1.RestartPolicy, status int32) bool {
	if c.RestartPolicy != nil {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool { return matches(r, status) }) {
			return true // each action is a restart, of this container or of all
		}
		switch *c.RestartPolicy {
		case v1.ContainerRestartPolicyAlways:
			return true
		case v1.ContainerRestartPolicyOnFailure:
			return status != 0
		case v1.ContainerRestartPolicyNever:
			return false
		}
	}
	switch pod {
	case v1.RestartPolicyOnFailure:
		return status != 0
	case v1.RestartPolicyNever:
		return false
	}
	return true
}

// matches reports whether a rule applies to an exit status (FindMatchingContainerRestartRule).
func matches(rule v1.ContainerRestartRule, status int32) bool {
	if rule.ExitCodes == nil {
		return false
	}
	in := slices.Contains(rule.ExitCodes.Values, status)
	switch rule.ExitCodes.Operator {
	case v1.ContainerRestartRuleOnExitCodesOpIn:
		return in
	case v1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !in
	}
	return false
}
