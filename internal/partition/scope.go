package partition

import "strings"

// livePrefix begins the names of scopes made by live moves. The rest is the name of the runtime's
// scope, because cAdvisor, in the kubelet and elsewhere, finds a container by the ID in the name of
// its cgroup (containerdCgroupRegexp, cadvisor container/containerd/factory.go).
const livePrefix = "partition-"

// againPrefix begins the name of a scope that replaces one of a live move, on the way from one
// partition to another: systemd has one unit of a name.
const againPrefix = livePrefix + "again-"

// LiveScope returns the name of the scope that replaces another one. A scope that has been moved
// live twice gets the name back that it had after the first time.
func LiveScope(scope string) string {
	if IsLiveMoved(scope) && !strings.HasPrefix(scope, againPrefix) {
		return againPrefix + RuntimeScope(scope)
	}
	return livePrefix + RuntimeScope(scope)
}

// RuntimeScope is the inverse of LiveScope for the scope of a runtime. A container that is moved
// back gets its old name, so that the runtime finds its cgroup again.
func RuntimeScope(scope string) string {
	if name, ok := strings.CutPrefix(scope, againPrefix); ok {
		return name
	}
	return strings.TrimPrefix(scope, livePrefix)
}

// IsLiveMoved reports whether a live move made the scope.
func IsLiveMoved(scope string) bool { return strings.HasPrefix(scope, livePrefix) }

// ContainerID returns the ID of the container in a unit of a pod's slice: cri-containerd-ID.scope,
// crio-ID.scope, docker-ID.scope. It returns an empty string for every other unit.
// crio-conmon-ID.scope is CRI-O's monitor of a container, and not the container.
func ContainerID(unit string) string {
	name, ok := strings.CutSuffix(RuntimeScope(unit), ".scope")
	if !ok || strings.HasPrefix(name, "crio-conmon-") {
		return ""
	}
	i := strings.LastIndexByte(name, '-')
	return name[i+1:]
}
