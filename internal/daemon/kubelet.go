package daemon

import (
	"log/slog"
	"slices"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/node"
)

// kubeletSeen holds the command line of the kubelet at the last check.
type kubeletSeen struct{ args []string }

// changed reports whether another kubelet is running than at the last check. It logs once if that
// one puts its pods elsewhere.
func (k *kubeletSeen) changed(root hostfs.FS, log *slog.Logger) bool {
	kubelet, err := kubeletargs.Running(root)
	if err != nil || slices.Equal(kubelet.Args, k.args) {
		return false
	}
	if flag := kubelet.OtherTree(); flag != "" {
		log.Error(
			"the kubelet's pods are not in kubepods.slice at the top of the hierarchy: none comes into the partition; remove the flag",
			"flag", flag,
		)
	}
	k.args = kubelet.Args
	return true
}

// lookAtKubelet applies the command line of a kubelet that was started after us.
func (m *monitor) lookAtKubelet() {
	if !m.seen.changed(m.options.Node.Root, m.log) {
		return
	}
	m.runtime.Reconsider()
	m.setBudget()
	if why := node.RunningYields(m.options.Node); why != "" {
		m.yield(why)
	}
}
