package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
)

// kubeletSeen holds the process and the command line of the kubelet at the last check. A kubelet
// that was restarted may have read other files.
type kubeletSeen struct {
	pid  int
	args []string
}

// changed reports whether another kubelet is running than at the last check. It logs once if that
// one puts its pods elsewhere.
func (k *kubeletSeen) changed(root host.Root, log *slog.Logger) bool {
	kubelet, err := kubelet.Running(root)
	if err != nil || kubelet.PID == k.pid && slices.Equal(kubelet.Args, k.args) {
		return false
	}
	if flag := kubelet.OtherTree(); flag != "" {
		log.Error(
			"the kubelet's pods are not in kubepods.slice at the top of the hierarchy: none comes into the partition; remove the flag",
			"flag", flag,
		)
	}
	k.pid, k.args = kubelet.PID, kubelet.Args
	return true
}

// commandTimeout bounds the wait for systemd to say what a command line is: the runtime is looked
// for in a reconcile.
const commandTimeout = time.Second

// serviceCommand returns the command line of a service.
func (m *monitor) serviceCommand(ctx context.Context, service string) (kubelet.Command, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	command, err := m.units.Command(ctx, service)
	return kubelet.Command(command), err
}

// lookAtKubelet applies the command line of a kubelet that was started after us, or that systemd
// could not say when the runtime was looked for.
func (m *monitor) lookAtKubelet() {
	changed, guess := m.seen.changed(m.options.Node.Root, m.log), m.runtime.IsGuess()
	if changed || guess && m.units.Connected() {
		m.runtime.Reconsider(context.Background())
	}
	if guess && !m.runtime.IsGuess() {
		m.signals.Wake() // what another runtime has said counts no longer
	}
	if !changed {
		return
	}
	m.setBudget()
	//guard: a partition beside the one that the kubelet takes stays
	m.noteReloaded()
}
