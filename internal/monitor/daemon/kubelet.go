package daemon

import (
	"slices"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/monitor/node"
)

// kubeletSeen keeps the command line of the kubelet that was looked at.
type kubeletSeen struct{ args []string }

// changed reports whether another kubelet runs than at the last look.
func (k *kubeletSeen) changed() bool {
	kubelet, err := kubeletargs.Running(hostfs.FS("/"))
	if err != nil || slices.Equal(kubelet.Args, k.args) {
		return false
	}
	k.args = kubelet.Args
	return true
}

// lookAtKubelet follows what a kubelet that was started after us has on its command line.
func (m *monitor) lookAtKubelet() {
	if !m.seen.changed() {
		return
	}
	m.runtime.Reconsider()
	if why := node.RunningYields(); why != "" {
		m.yield(why)
	}
}
