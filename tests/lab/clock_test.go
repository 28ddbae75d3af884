package lab

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestClockRuns: a boot fails if its kernel's clock is far ahead of this machine's. Messages of an
// earlier boot do not count.
func TestClockRuns(t *testing.T) {
	for name, test := range map[string]struct {
		before, console string
		restored, want  bool
	}{
		"nothing yet":      {"", "", false, false},
		"in time":          {"", "[    0.5] Linux\n[   12.125] systemd[1]: Started\n", false, false},
		"runs away":        {"", "[    0.5] Linux\n[ 1981.448466] systemd[1]: systemd-udevd.service: start operation timed out.\n", false, true},
		"of another boot":  {"[ 1981.448466] systemd[1]: Reached target\n", "[    0.5] Linux\n", false, false},
		"of a saved node":  {"", "[ 1981.448466] audit\n", true, false},
		"no message of it": {"", "lab-bake: [1981.4] done\n", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{Dir: t.TempDir(), Started: time.Now().Add(-30 * time.Second), consoleBefore: int64(len(test.before))}
			if test.restored {
				n.machine.Incoming = "memory"
			}
			if err := os.WriteFile(filepath.Join(n.Dir, consoleName), []byte(test.before+test.console), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := n.clockRuns(); errors.Is(err, errFastClock) != test.want {
				t.Errorf("error %v", err)
			}
		})
	}
}
