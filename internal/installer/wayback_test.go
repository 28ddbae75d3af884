package installer

import (
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/installer/sandbox"
)

// TestRollbackUnits: the text of the units, whose every line is a promise: the rollback is tried
// again for as long as it takes, before the kubelet at a boot, and not before its folder is
// mounted. No target that is isolated stops its timer.
func TestRollbackUnits(t *testing.T) {
	t.Parallel()
	lines := sandbox.Lines(false, folder+"/partition-installer", "back")
	service := `# Written by partition-installer for the time of a change.
[Unit]
Description=Way Back of an Installation of the System Partition
RequiresMountsFor=/var/lib/node-partition/installer
Before=kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service
StartLimitIntervalSec=0

[Service]
` + strings.Join(lines, "\n") + `
Restart=on-failure
RestartSec=30s
`
	if got := serviceText(); got != service {
		t.Errorf("%s\nwant\n%s", got, service)
	}
	const timer = `# Written by partition-installer for the time of a change.
[Unit]
Description=Deadline of an Installation of the System Partition
# No target that is isolated stops it.
IgnoreOnIsolate=yes

[Timer]
OnBootSec=5400000ms
OnStartupSec=5400000ms
# Counts from the start of this timer. A reload of systemd may start it over (systemd issue 31914),
# the others not.
OnActiveSec=600500ms
AccuracySec=100ms
Unit=partition-install-back.service
`
	if got := timerText(90*time.Minute, 10*time.Minute+500*time.Millisecond); got != timer {
		t.Errorf("%s\nwant\n%s", got, timer)
	}
}
