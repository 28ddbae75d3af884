//go:build node

package lab

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

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
