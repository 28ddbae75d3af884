//go:build node

package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// TestReclaim: all of the monitor's code is in memory, also what has not run yet. The kernel takes
// that of other programs when it reclaims all that it can, and leaves the monitor's where it is.
// Without LimitMEMLOCK= 3 of 24 MB are left.
func TestReclaim(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "256Mi")
		number := func(command string) int {
			got, err := strconv.Atoi(strings.TrimSpace(run(t, n, command)))
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		const resident = "awk '/^RssFile:/ { print $2 }' /proc/$(systemctl show -P MainPID " + monitorUnit + ")/status"
		before, size := number(resident), number("stat -c %s /usr/bin/partition-monitor")>>10
		// Its data, which is written, is a copy of less than a twentieth of the file.
		if before < size-size/20 {
			t.Errorf("%d of the %d KiB of the program's file are in memory", before, size)
		}
		// As much as the node has of page cache. The kernel answers EAGAIN where it finds less, and goes
		// on for as long as others read their pages back.
		run(t, n, "awk '/^Cached:/ { print $2 \"K\" }' /proc/meminfo >/sys/fs/cgroup/memory.reclaim 2>/dev/null || true")
		if after := number(resident); after < before {
			t.Errorf("%d KiB of the program's file are in memory; %d were before the kernel reclaimed", after, before)
		}
	})
}
