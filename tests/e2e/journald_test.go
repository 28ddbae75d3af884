//go:build node

package e2e

import (
	"strconv"
	"testing"
	"time"

	"node-partition.io/node-partition/tests/lab"
)

const (
	// journaldUnwatched keeps systemd from ending a journald that is stopped, which it does after
	// three minutes and more.
	journaldUnwatched = "/run/systemd/system/systemd-journald.service.d/50-unwatched.conf"
	// fillJournal fills the queue of journald's native socket, and prints how many messages fitted.
	// One socket cannot: the kernel bounds what each sender has in it.
	fillJournal = `perl -MSocket -e 'my $n = 0; for (1 .. 32) { socket(my $s, AF_UNIX, SOCK_DGRAM, 0) or die; ` +
		`$n++ while send($s, "MESSAGE=filler\n", MSG_DONTWAIT, pack_sockaddr_un("/run/systemd/journal/socket")) } print $n'`
	journaldHangs = 3 * time.Minute
)

// TestJournaldHangs: journald does not read for three minutes, as with a disk that hangs. Members
// that leak go, new members are placed, and a restarted monitor gets ready. What the monitor said
// meanwhile is in the journal afterwards.
func TestJournaldHangs(t *testing.T) {
	onOne(t, func(t *testing.T, flavour string) {
		e := newEvictor(t, flavour, lab.File{Path: journaldUnwatched, Data: []byte("[Service]\nWatchdogSec=0\n")})
		run(t, e.Node, "systemctl daemon-reload && systemctl restart systemd-journald.service")
		begin := time.Now()
		run(t, e.Node, "systemctl kill --signal=STOP systemd-journald.service")
		fitted, err := strconv.Atoi(run(t, e.Node, fillJournal))
		if err != nil || fitted == 0 {
			t.Fatalf("%d messages fitted, %v", fitted, err)
		}
		want(t, e.Node, fillJournal, "0")
		t.Logf("journald is stopped, and its queue is full with %d messages", fitted)
		during := func(name string) {
			t.Helper()
			e.leaks(t, leaker("leaker-"+name, "20Mi"))
			e.evicted(t, "leaker-"+name)
			e.delete(t, members, "leaker-"+name)
			s := spec{namespace: members, name: "member-" + name}
			e.create(t, s)
			e.placed(t, s.name)
			e.remove(t, members, s.name)
			t.Logf("%s: a leaker is gone and a member placed after %s", name, time.Since(begin).Round(time.Second))
		}
		during("before")
		restart := time.Now()
		run(t, e.Node, "systemctl restart "+monitorUnit)
		t.Logf("a restarted monitor is ready after %s", time.Since(restart).Round(time.Second))
		during("after")
		begun, used := time.Now(), e.used(t)
		<-time.After(max(20*time.Second, journaldHangs-time.Since(begin)))
		if share := float64(e.used(t)-used) / float64(time.Since(begun)); share > 0.5 {
			t.Errorf("the monitor waits for journald with %.0f %% of a CPU", 100*share)
		} else {
			t.Logf("the monitor uses %.0f %% of a CPU meanwhile", 100*share)
		}
		want(t, e.Node, "ps -o state= -p $(systemctl show --value -p MainPID systemd-journald.service)", "T")
		want(t, e.Node, fillJournal, "0")
		run(t, e.Node, "systemctl kill --signal=CONT systemd-journald.service")
		becomes(t, e.Node, "journalctl -b --no-pager -o cat -u "+monitorUnit+" | grep -c '^evicting a pod.*pod=leaker-after'", "1")
		said := run(t, e.Node, "journalctl -b --no-pager -o cat -u "+monitorUnit+" | grep 'log records were dropped' || true")
		t.Logf("journald stood still for %s; dropped: %q", time.Since(begin).Round(time.Second), said)
		e.unharmed(t)
	})
}

// used returns the CPU time of the monitor.
func (e *evictor) used(t *testing.T) time.Duration {
	t.Helper()
	ns, err := strconv.ParseInt(property(t, e.Node, monitorUnit, "CPUUsageNSec"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ns)
}
