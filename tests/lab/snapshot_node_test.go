//go:build node

package lab

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestNodeRestored restores two nodes from one snapshot, one after the other. Their pods run, their
// clocks follow this machine's, neither sees the other's writes, and their random numbers differ.
func TestNodeRestored(t *testing.T) {
	t.Parallel()
	random := map[string]bool{}
	for i := range 2 {
		restored(t, i, random).finish()
	}
}

// TestSoakRestore restores twenty nodes, one after the other, and reboots the last one.
func TestSoakRestore(t *testing.T) {
	t.Parallel()
	const times = 20
	random := map[string]bool{}
	for i := range times {
		began := time.Now()
		n := restored(t, i, random)
		t.Logf("restore %d: ready after %.1f s", i, time.Since(began).Seconds())
		if i == times-1 {
			rebooted(t, n, strconv.Itoa(i))
		}
		n.finish()
	}
}

// rebooted reboots a restored node, which then boots its own disk.
func rebooted(t *testing.T, n *Node, mark string) {
	t.Helper()
	boot, err := n.bootID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := n.bootID(t.Context()); err != nil || again == boot {
		t.Errorf("boot ID %s after the reboot, %s before: %v", again, boot, err)
	}
	if text, err := n.readFile(t.Context(), "/root/mark"); err != nil || strings.TrimSpace(string(text)) != mark {
		t.Errorf("after the reboot the node's own file says %q, want %s: %v", text, mark, err)
	}
	if _, err := n.Run(t.Context(), "journalctl -q -b -1 -n 1 -u kubelet"); err != nil {
		t.Errorf("the journal of the boot before: %v", err)
	}
}

// restored restores a node whose pods run, checks it, and leaves a mark on its disk.
func restored(t *testing.T, i int, random map[string]bool) *Node {
	t.Helper()
	n := ForTest(t, Options{Restore: true})
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := n.Run(t.Context(), "date +%s; head -c 16 /dev/urandom | od -An -tx1 | tr -d ' '; cat /root/mark 2>/dev/null; echo "+strconv.Itoa(i)+" >/root/mark; sync")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(out)
	if len(fields) != 2 {
		t.Fatalf("restore %d: the node says %q, want a time and random bytes, and no mark of another node", i, out)
	}
	const tolerance = 5 // seconds
	if seconds, err := strconv.ParseInt(fields[0], 10, 64); err != nil || max(seconds, time.Now().Unix())-min(seconds, time.Now().Unix()) > tolerance {
		t.Errorf("restore %d: the node's clock says %s, here it is %d", i, fields[0], time.Now().Unix())
	}
	if random[fields[1]] {
		t.Errorf("restore %d: random bytes %s for the second time", i, fields[1])
	}
	random[fields[1]] = true
	return n
}

// dirtyChild is set for TestDirtyChild.
const dirtyChild = "LAB_TEST_DIRTY_CHILD"

// TestDirtyChild is not a test: TestDirtyNodeIsFound runs it in another process.
func TestDirtyChild(t *testing.T) {
	if os.Getenv(dirtyChild) == "" {
		return
	}
	leaves := func(command string) func(*testing.T, *Node) {
		return func(t *testing.T, n *Node) {
			if _, err := n.Run(t.Context(), command); err != nil {
				t.Fatal(err)
			}
		}
	}
	InTurn(t, func(t *testing.T) *Node { return ForTest(t, Options{Restore: true}) },
		Part{Name: "clean", Run: leaves("touch /etc/something && rm /etc/something && systemctl start tmp-not-there.mount 2>/dev/null; true")},
		Part{Name: "leaves a unit", Run: leaves("systemd-run --unit=left-behind --slice=left.slice -p MemoryMax=64M sleep 2147483647; touch /etc/left-behind.conf")},
		Part{Name: "gets a fresh node", Run: leaves("! test -e /etc/left-behind.conf && ! systemctl is-active left-behind.service")},
		Part{Name: "complains", Run: leaves("echo '<4>something is wrong' | systemd-cat -t partition-monitor --level-prefix=true")},
		Part{Name: "complains as it says", Run: leaves("echo '<4>something is wrong' | systemd-cat -t partition-monitor --level-prefix=true"), Complaints: []string{"^something is wrong$"}},
	)
}

// TestDirtyNodeIsFound: a part of a test that changes its node fails, and the part behind it has
// another node.
func TestDirtyNodeIsFound(t *testing.T) {
	t.Parallel()
	// It shares this test's deadline, and waits for a place for each of its nodes.
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDirtyChild$", "-test.v")
	cmd.Env = append(os.Environ(), dirtyChild+"=1")
	data, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("a dirty node is no failure")
	}
	out := string(data)
	for _, want := range []string{
		"--- PASS: TestDirtyChild/clean ", "--- FAIL: TestDirtyChild/leaves_a_unit ", "--- PASS: TestDirtyChild/gets_a_fresh_node ",
		"--- FAIL: TestDirtyChild/complains ", "--- PASS: TestDirtyChild/complains_as_it_says ",
		"TestDirtyChild/leaves_a_unit leaves its node dirty", "unit left-behind.service was not there before", "cgroup /left.slice was not there before",
		"file /etc/left-behind.conf was not there before",
		"TestDirtyChild/complains: the journal has a complaint that the part does not name: something is wrong",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}
