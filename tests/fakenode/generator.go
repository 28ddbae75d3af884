package fakenode

import (
	"os"
	"path/filepath"
	"strings"

	"node-partition.io/node-partition/internal/generator"
	"node-partition.io/node-partition/internal/trialend"
)

// Generate runs the generator on the node, as a daemon-reload does, and returns its messages. It
// fails the test unless the generator's exit status is want.
func (n *Node) Generate(want int) (messages string) {
	n.t.Helper()
	now, err := trialend.Now()
	if err != nil {
		n.t.Fatal(err)
	}
	return n.GenerateAt(now, want)
}

// GenerateAt is Generate at another time.
func (n *Node) GenerateAt(now trialend.Moment, want int) (messages string) {
	n.t.Helper()
	status, messages := n.generate(now)
	if status != want {
		n.t.Fatalf("generator: status %d, want %d: %s", status, want, messages)
	}
	return messages
}

// generate runs the generator as a boot does.
func (n *Node) generate(now trialend.Moment) (status int, messages string) {
	n.t.Helper()
	dir := filepath.Join(n.Root, "/run/systemd/generator")
	if err := os.RemoveAll(dir); err != nil {
		n.t.Fatal(err)
	}
	var text strings.Builder
	status = generator.Run(n.Root, dir, now, generator.NewLog(&text))
	return status, text.String()
}
