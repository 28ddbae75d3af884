package podmove

import (
	"strings"
)

// livePrefix begins the names of the scopes that live moves make. The rest is the name of the scope that the runtime made,
// because cAdvisor, in the kubelet and elsewhere, knows a container by the ID in the name of its cgroup
// (containerdCgroupRegexp, cadvisor container/containerd/factory.go).
const livePrefix = "partition-"

// LiveScope is the name of the scope that takes over from the runtime's, and RuntimeScope the inverse: back home a container
// has its old name, and the runtime finds its cgroup again.
func LiveScope(runtimeScope string) string { return livePrefix + runtimeScope }

// RuntimeScope is the name that the runtime gave.
func RuntimeScope(scope string) string { return strings.TrimPrefix(scope, livePrefix) }

// IsLiveMoved tells whether a scope was made by a live move.
func IsLiveMoved(scope string) bool { return strings.HasPrefix(scope, livePrefix) }

// ContainerID returns the ID of the container that a unit in a pod's slice is for: cri-containerd-ID.scope, crio-ID.scope, docker-ID.scope.
// It is empty for everything else. CRI-O's monitor of a container, crio-conmon-ID.scope, is not the container.
func ContainerID(unit string) string {
	name, ok := strings.CutSuffix(RuntimeScope(unit), ".scope")
	if !ok || strings.HasPrefix(name, "crio-conmon-") {
		return ""
	}
	i := strings.LastIndexByte(name, '-')
	return name[i+1:]
}
