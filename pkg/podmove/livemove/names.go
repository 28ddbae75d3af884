package livemove

import "strings"

// ScopePrefix is what the names of scopes begin with that this package makes in the system partition. The rest is the name
// that the runtime gave: cAdvisor looks for the 64 hexadecimal digits of a container's ID in the name of a cgroup.
const ScopePrefix = "partition-"

// ScopeIn is the name of the scope that takes over from a scope of the runtime.
func ScopeIn(runtimeScope string) string { return ScopePrefix + runtimeScope }

// RuntimeScope is the name that the runtime gave the scope that one of ours took over from. On the way back a container
// gets that name, and its runtime finds the cgroup again. It reports false for a scope that is not ours.
func RuntimeScope(scope string) (string, bool) { return strings.CutPrefix(scope, ScopePrefix) }

// validScope reports whether a name is one of a scope that a runtime makes: it becomes part of paths.
func validScope(name string) bool {
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(":-_.\\", r):
		default:
			return false
		}
	}
	return strings.HasSuffix(name, ".scope") && !strings.HasPrefix(name, ".")
}
