package check

import (
	"os"
	"strings"
	"testing"

	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/state"
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

// TestChecksAreDocumented: each check has a name of its own, a section that exists, and an entry in
// the manual page.
func TestChecksAreDocumented(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../../man/partition-monitor.8")
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for _, page := range []string{"troubleshooting.md", "audit.md"} {
		text, err := os.ReadFile("../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if title := strings.TrimLeft(line, "#"); title != line {
				anchors["share/doc/node-partition/"+page+"#"+strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = true
			}
		}
	}
	seen := map[string]bool{}
	for _, c := range allChecks {
		if !anchors[c.docs] {
			t.Errorf("%s: %s is not a section of docs", c.name, c.docs)
		}
		if seen[c.name] {
			t.Errorf("%s twice", c.name)
		}
		seen[c.name] = true
		if !strings.Contains(string(manual), "\n.It Sy "+c.name+"\n") {
			t.Errorf("partition-monitor(8) does not have the check %s", c.name)
		}
	}
}
