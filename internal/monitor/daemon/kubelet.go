package daemon

import (
	"slices"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/monitor/node"
)

// kubeletSeen holds the command line of the kubelet at the last check.
type kubeletSeen struct{ args []string }

// changed reports whether another kubelet is running than at the last check.
func (k *kubeletSeen) changed() bool {
	kubelet, err := kubeletargs.Running(hostfs.FS("/"))
	if err != nil || slices.Equal(kubelet.Args, k.args) {
		return false
	}
	k.args = kubelet.Args
	return true
}

// lookAtKubelet applies the command line of a kubelet that was started after us.
func (m *monitor) lookAtKubelet() {
	if !m.seen.changed() {
		return
	}
	m.runtime.Reconsider()
	m.setBudget()
	if why := node.RunningYields(); why != "" {
		m.yield(why)
	}
}
