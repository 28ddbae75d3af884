package testkit

import (
	"os"
	"strings"
	"testing"
)

// TestWalk: the page about the installation leads through a node's life, which TestDay walks on a
// node.
func TestWalk(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/examples/one-node.md")
	if err != nil {
		t.Fatal(err)
	}
	for title, want := range map[string]string{
		"Install": "dpkg -i ", "Observe": "<<EOF\n", "Recommend": "recommend >", "Try": "try ", "Keep": "keep", "Change": "sed -i ",
		"Upgrade": "dpkg -i ", "Go back": "validate ", "Switch off": "rm ", "Remove": "dpkg -P ",
	} {
		commands, err := Commands(string(text), title)
		if err != nil || !strings.Contains(strings.Join(commands, "\n"), want) {
			t.Errorf("docs/examples/one-node.md: below %q: %q, %v; want %q", title, commands, err, want)
		}
	}
}
