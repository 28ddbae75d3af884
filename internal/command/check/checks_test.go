package check

import (
	"os"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/kubeletargs"
	"node-partition.io/node-partition/internal/state"
)

// TestOtherTree: a kubelet that was started with another cgroup root is an error that names it.
func TestOtherTree(t *testing.T) {
	t.Parallel()
	var flags kubeletargs.Flags
	if found := otherTree(&flags); found != nil {
		t.Errorf("%+v for a kubelet without the flag", found)
	}
	flags.CgroupRoot = "/k8s"
	found := otherTree(&flags)
	if len(found) != 1 || found[0].Grade != state.Error || !strings.Contains(found[0].Found, "--cgroup-root=/k8s") {
		t.Errorf("%+v; want an error with the flag", found)
	}
}

// TestChecksAreDocumented: each check has a name of its own, a page, and an entry in the index of
// pages and in the manual page.
func TestChecksAreDocumented(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../../man/partition-monitor-check.1")
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile("../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range allChecks {
		page := "troubleshooting/" + c.name + ".md"
		if _, err := os.Stat("../../../docs/" + page); err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(index), "("+page+")") {
			t.Errorf("docs/troubleshooting.md does not have %s", page)
		}
		if seen[c.name] {
			t.Errorf("%s twice", c.name)
		}
		seen[c.name] = true
		if !strings.Contains(string(manual), "\n.It Sy "+c.name+"\n") {
			t.Errorf("partition-monitor-check(1) does not have the check %s", c.name)
		}
	}
}
