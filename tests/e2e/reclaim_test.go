//go:build node

package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// TestReclaim: all of the monitor's code is in memory, also what has not run yet. It stays there
// when the kernel reclaims all that it can. Without LimitMEMLOCK= 3 of 24 MB are left.
func TestReclaim(t *testing.T) {
	onEach(t, kinds(debians(), "trixie"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "256Mi")
		// All that is mapped from its file. RssFile is less by a page for each one that is written.
		const resident = "awk '/^[0-9a-f]+-/ { own = $6 == \"/usr/bin/partition-monitor\" } own && /^Rss:/ { sum += $2 } END { print sum }'" +
			" /proc/$(systemctl show -P MainPID " + monitorUnit + ")/smaps"
		becomes(t, n, "size=$(stat -c %s /usr/bin/partition-monitor); test $("+resident+") -ge $((size / 1024 * 19 / 20)) && echo all || true", "all")
		number := func() int {
			got, err := strconv.Atoi(strings.TrimSpace(run(t, n, resident)))
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		before := number()
		// As much as the node has of page cache. The kernel answers EAGAIN where it finds less, and goes
		// on for as long as others read their pages back.
		want(t, n, "cached() { awk '/^Cached:/ { print $2 }' /proc/meminfo; }; had=$(cached)\n"+
			"echo ${had}K >/sys/fs/cgroup/memory.reclaim 2>/dev/null || true; test $(cached) -lt $((had * 2 / 3)) && echo reclaimed", "reclaimed")
		if after := number(); after < before {
			t.Errorf("%d KiB of the program's file are in memory; %d were before the kernel reclaimed", after, before)
		}
	})
}
