package installer

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/installer/sandbox"
)

// The units of the rollback. The timer starts the service at the deadline, and the target does at
// the next boot: the service itself knows whether it is time.
const (
	backService = "partition-install-back.service"
	backTimer   = "partition-install-back.timer"

	unitFolder = "/etc/systemd/system"
	bootTarget = "multi-user.target"
)

// wanted is a symbolic link that enables a unit.
type wanted struct{ target, path string }

// bootLink starts the service at a boot, and timerLink the timer.
var (
	bootLink  = wanted{"../" + backService, path.Join(unitFolder, bootTarget+".wants", backService)}
	timerLink = wanted{"../" + backTimer, path.Join(unitFolder, "timers.target.wants", backTimer)}
)

// backPaths lists the files of the rollback in the order in which they are removed. The service is
// the last: as long as it is there, the rollback can be called again to remove the rest.
func backPaths() []string {
	return []string{
		timerLink.path, path.Join(unitFolder, backTimer), bootLink.path, path.Join(unitFolder, backService),
	}
}

// kubelets lists the services of kubelets, which wait for a rollback at a boot: the pods are to
// start with the programs that stay.
const kubelets = "kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service"

// serviceText returns the unit file of the service of the rollback. It is all that is needed to go
// back, beside the installer's folder.
func serviceText() string {
	return strings.Join(append([]string{
		"# Written by partition-installer for the time of a change.",
		"[Unit]",
		"Description=Way Back of an Installation of the System Partition",
		"RequiresMountsFor=" + sandbox.Folder,
		//guard: a kubelet does not wait for the way back at a boot
		"Before=" + kubelets,
		//guard: systemd stops trying the way back after some failures
		"StartLimitIntervalSec=0",
		"",
		"[Service]",
	}, append(sandbox.Lines(false, path.Join(sandbox.Folder, Program), "back"),
		// A reload that fails on a busy node is tried again.
		//guard: a way back that fails is not tried again
		"Restart=on-failure",
		"RestartSec=30s",
		"",
	)...), "\n")
}

// timerText returns the unit file of the timer. systemd counts OnStartupSec= from the start of the
// service manager, which differs from the boot in a container, and after a soft-reboot.
func timerText(sinceBoot, fromNow time.Duration) string {
	return fmt.Sprintf(`# Written by partition-installer for the time of a change.
[Unit]
Description=Deadline of an Installation of the System Partition
# No target that is isolated stops it.
IgnoreOnIsolate=yes

[Timer]
OnBootSec=%[1]dms
OnStartupSec=%[1]dms
# Counts from the start of this timer. A reload of systemd may start it over (systemd issue 31914),
# the others not.
OnActiveSec=%[2]dms
AccuracySec=100ms
Unit=%[3]s
`, sinceBoot.Milliseconds(), fromNow.Milliseconds(), backService)
}

// prepareRollback writes the units of the rollback, and starts its timer.
func (h *Host) prepareRollback(ctx context.Context, r *record.Rollout) error {
	now, err := h.Now()
	if err != nil {
		return err
	}
	write := func(name, text string) error {
		return h.WriteBytes(path.Join(unitFolder, name), []byte(text), 0o644)
	}
	if err := write(backService, serviceText()); err != nil {
		return err
	}
	if err := write(backTimer, timerText(r.Deadline.Since, max(0, r.Deadline.Since-now.Since))); err != nil {
		return err
	}
	for _, l := range []wanted{timerLink, bootLink} {
		if err := h.Mkdir(path.Dir(l.path), 0o755); err != nil {
			return err
		}
		if err := h.Link(l.target, l.path); err != nil {
			return err
		}
	}
	if _, err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	// One that is still active from an earlier roll has elapsed, and a start would leave it so.
	_, err = h.systemctl(ctx, "restart", backTimer)
	return err
}

// removeRollback removes the units of the rollback, if there are some.
func (h *Host) removeRollback(ctx context.Context) error {
	some := false
	for _, name := range backPaths() {
		was, err := h.Present(name)
		if err != nil {
			return err
		}
		some = some || was.Exists
		if err := h.Tidy(name); err != nil {
			return err
		}
	}
	if !some {
		return nil
	}
	for _, name := range backPaths() {
		if err := h.Remove(name); err != nil {
			return err
		}
		if path.Dir(name) != unitFolder {
			h.RemoveEmpty(path.Dir(name))
		}
	}
	// Last: killed before, the timer starts the service once more, which removes what is left. The
	// service may be this process, and ends by itself.
	if _, err := h.systemctl(ctx, "stop", backTimer); err != nil {
		h.Say("%v", err) // it is not loaded if the rollout was interrupted before a reload
	}
	// systemd forgets the units when the service has ended, which may be this process. A reload before
	// would leave the service without its unit file, and so with the default of TimeoutStartSec=.
	// systemd ended a rollback that had run for more than 90 s (257). It refuses a reload that exceeds
	// ReloadLimitBurst= (systemd-system.conf(5)).
	_, err := h.Programs.Run(ctx,
		"systemd-run", "--quiet", "--collect", "--no-block", "--description=Reload after a Way Back",
		//guard: a reload after a way back that systemd refuses is not tried again
		"--property=Type=oneshot", "--property=Restart=on-failure", "--property=RestartSec=5s",
		"--property=StartLimitIntervalSec=10min", "--property=StartLimitBurst=20",
		//guard: systemd is reloaded when the way back has ended, and not by the way back itself
		"--property=After="+backService, "systemctl", "daemon-reload")
	return err
}
