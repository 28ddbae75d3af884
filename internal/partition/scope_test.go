package partition

import "testing"

func TestContainerID(t *testing.T) {
	for unit, want := range map[string]string{
		"cri-containerd-abc.scope":           "abc",
		"partition-cri-containerd-abc.scope": "abc",
		"crio-abc.scope":                     "abc",
		"docker-abc.scope":                   "abc",
		"crio-conmon-abc.scope":              "",
		"partition-crio-conmon-abc.scope":    "",
		"libcontainer_1_systemd.slice":       "",
		"abc":                                "",
	} {
		if got := ContainerID(unit); got != want {
			t.Errorf("container of %s is %q, want %q", unit, got, want)
		}
	}
}

// TestLiveScope: a scope that is moved live gets another name each time, and the runtime's on the
// rollback. All of them show the container.
func TestLiveScope(t *testing.T) {
	t.Parallel()
	const runtime = "cri-containerd-abc.scope"
	scope := runtime
	for i, want := range []string{"partition-" + runtime, "partition-again-" + runtime, "partition-" + runtime} {
		if scope = LiveScope(scope); scope != want {
			t.Errorf("after %d moves %s, want %s", i+1, scope, want)
		}
		if !IsLiveMoved(scope) || RuntimeScope(scope) != runtime || ContainerID(scope) != "abc" {
			t.Errorf("%s: live moved %t, of %s, container %s", scope, IsLiveMoved(scope), RuntimeScope(scope), ContainerID(scope))
		}
	}
	if IsLiveMoved(runtime) {
		t.Errorf("%s counts as moved live", runtime)
	}
}
