package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// service notifies systemd of our state (sd_notify(3)).
type service struct {
	mu   sync.Mutex
	last string
}

// readyTimeout limits how long the kubelet, which is ordered after us, waits for the first
// reconcile and for NRI. Pods that start earlier are found and moved.
const readyTimeout = 10 * time.Second

// status sets the line that systemctl status shows.
func (s *service) status(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line == s.last {
		return
	}
	if systemd.Notify("STATUS="+line) == nil { // else the next reconcile tries again
		s.last = line
	}
}

// run notifies systemd that we are ready, and then that we are alive, until ctx ends.
func (s *service) run(ctx context.Context, alive, ready func() error) error {
	const look = 50 * time.Millisecond
	deadline := time.NewTimer(readyTimeout)
	defer deadline.Stop()
	for waiting := true; waiting && ready() != nil; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			waiting = false
		case <-time.After(look):
		}
	}
	for systemd.Notify(daemon.SdNotifyReady) != nil { // systemd would wait for it, and kill us
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		if alive() == nil {
			_ = systemd.Notify(daemon.SdNotifyWatchdog) // there are two more in each period
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// summary returns the status line. err is the error of the last reconcile, problem says what the
// error of the configuration means, and unserved is the reason why there are no metrics.
func summary(
	found report.Report, partitions []partition.Name, err error, problem string, unserved error,
) string {
	line := whereabouts(found, partitions...)
	if err != nil {
		line = "Failing, retrying: " + text.Terminal(err.Error())
	}
	if problem != "" {
		line += "; " + problem
	}
	if unserved != nil {
		line += "; metrics and health are not served: " + text.Terminal(unserved.Error())
	}
	return line
}

// whereabouts returns how many pods run in each of the partitions, and how many in a wrong one.
func whereabouts(found report.Report, partitions ...partition.Name) string {
	placed := map[partition.Name]int{}
	for _, pod := range found.Pods {
		if pod.Containers > 0 {
			placed[pod.Partition()]++
		}
	}
	var line strings.Builder
	for _, name := range partitions {
		fmt.Fprintf(&line, "%d pods in partition %s, ", placed[name], name)
	}
	fmt.Fprintf(&line, "%d pods in the wrong partition", found.Misplaced())
	return line.String()
}

// lockState prevents a second monitor from undoing the work of the first. The lock ends with the
// process.
func lockState(n host.Node) (*node.Lock, error) {
	file, err := node.LockFile(n.Path(filepath.Join(node.StateDir, "lock")))
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf(
			"%w: another partition-monitor runs: stop it first (systemctl stop partition-monitor.service)",
			err,
		)
	}
	return file, err
}
