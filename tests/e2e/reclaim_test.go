//go:build node

package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// TestReclaim: the kernel takes the code of other programs when it reclaims all that it can, and
// leaves the monitor's where it is. Without LimitMEMLOCK= 3 of 24 MB are left.
func TestReclaim(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "256Mi")
		resident := func() int {
			out := strings.TrimSpace(run(t, n, "awk '/^RssFile:/ { print $2 }' /proc/$(systemctl show -P MainPID "+monitorUnit+")/status"))
			kib, err := strconv.Atoi(out)
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
		before := resident()
		// As much as the node has of page cache. The kernel answers EAGAIN where it finds less, and goes
		// on for as long as others read their pages back.
		run(t, n, "awk '/^Cached:/ { print $2 \"K\" }' /proc/meminfo >/sys/fs/cgroup/memory.reclaim 2>/dev/null || true")
		if after := resident(); after < before {
			t.Errorf("%d KiB of the program's file are in memory; %d were before the kernel reclaimed", after, before)
		}
	})
}
