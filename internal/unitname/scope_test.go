package unitname

import (
	"testing"
)

func TestContainerID(t *testing.T) {
	for unit, want := range map[string]string{
		"cri-containerd-abc.scope":           "abc",
		"partition-cri-containerd-abc.scope": "abc",
		"crio-abc.scope":                     "abc",
		"crio-conmon-abc.scope":              "",
		"libcontainer_1_systemd.slice":       "",
		"abc":                                "",
	} {
		if got := ContainerID(unit); got != want {
			t.Errorf("container of %s is %q, want %q", unit, got, want)
		}
	}
}
