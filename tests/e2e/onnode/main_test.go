//go:build node

package onnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/tests/testkit"
)

// onNode is set in the environment by the tests that run this.
const onNode = "NODE_PARTITION_ON_NODE"

func TestMain(m *testing.M) {
	// Tests start this program again as the processes that they need.
	if os.Getenv(onNode) == "" {
		fmt.Fprintln(os.Stderr, "these tests change the machine's systemd: make e2e RUN=TestOnNode runs them on a node")
		os.Exit(1)
	}
	switch os.Args[1] {
	case "chain":
		chain()
	case "move-and-die":
		moveAndDie()
	case "grow":
		grow()
	case "bystander":
		bystander()
	default:
		os.Exit(m.Run())
	}
}

const tree = cgroups.FS(cgroups.Mount)

// patience bounds the wait for a systemd that reloads, which takes ten seconds on a busy machine.
const patience = time.Minute

// connect returns a client that is connected.
func connect(tb testing.TB, o systemd.Options) *systemd.Client {
	tb.Helper()
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	if o.Cgroups == "" {
		o.Cgroups = tree
	}
	c := systemd.New(o)
	testkit.Background(tb, c.Run)
	eventually(tb, "connected", c.Connected)
	return c
}

// eventually polls for a condition that tests get no event for.
func eventually(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// shell runs a command on the node.
func shell(tb testing.TB, command string) string {
	tb.Helper()
	out, err := exec.Command("/bin/sh", "-c", command).CombinedOutput()
	if err != nil {
		tb.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// file reads a file of a cgroup.
func file(tb testing.TB, cgroup, name string) string {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(cgroups.Mount, cgroup, name))
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// wantLimits compares limits with those in the kernel.
func wantLimits(tb testing.TB, cgroup string, want cgroups.Limits) {
	tb.Helper()
	got, err := tree.Limits(cgroup)
	if err != nil {
		tb.Fatal(err)
	}
	if got != want {
		tb.Errorf("%s has the limits %+v, want %+v", cgroup, got, want)
	}
}

// wantNothingLeft checks that systemd keeps nothing of units whose names contain part.
func wantNothingLeft(tb testing.TB, part string) {
	tb.Helper()
	eventually(tb, "no unit left of "+part, func() bool {
		return shell(tb, "systemctl list-units --all --plain --no-legend '*"+part+"*'") == ""
	})
	if left := shell(tb, "find /run/systemd/transient /run/systemd/system.control /etc/systemd/system.control -name '*"+part+"*' 2>/dev/null; true"); left != "" {
		tb.Errorf("left behind:\n%s", left)
	}
	if left := shell(tb, "find /sys/fs/cgroup -name '*"+part+"*'"); left != "" {
		tb.Errorf("cgroups left behind:\n%s", left)
	}
}

// chain starts its successor and exits, and so does each successor: when a reader uses the PID of
// one, that process is gone.
func chain() {
	cmd := exec.Command("/proc/self/exe", "chain")
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
