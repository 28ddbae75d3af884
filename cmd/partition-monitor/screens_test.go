package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/tests/fakenode"
)

// screens has what people see: for each command line the text through a pipe, and the lines that
// are others on terminals of 120 and of 80 columns without colours. Help has 80 columns everywhere.
const screens = "testdata/screens.txtar"

// without returns the lines of a text that another one does not have.
func without(text, other string) string {
	there := strings.SplitAfter(other, "\n")
	lines := slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool { return slices.Contains(there, line) })
	return strings.Join(lines, "")
}

// TestScreens: with -update it writes them.
func TestScreens(t *testing.T) {
	t.Parallel()
	n := guarded(t)
	n.TellPods()
	n.Write("/run/node-partition/monitor/evictions.json", `{"version":1,"last":[{"namespace":"kube-system","name":"dns-1","time":"2026-11-20T10:00:00Z",
		"threshold":"hard","method":"evict","workingSetBytes":94371840,"requestBytes":10485760}]}`)
	n.Write("/proc/swaps", "Filename Type Size Used Priority")
	n.Write("/etc/good.yaml", fakenode.Configuration("systemPartition: {memoryLimit: 4Gi, cpuset: 0-1, namespaces: [kube-system]}\n"))
	n.Write("/etc/bad.yaml", fakenode.Configuration("systemPartition: {memoryLimit: 4GB, cpusets: 0-3, namespaces: [Kube_System]}\n"))
	const of = " --capacity=cpu=4,memory=16Gi"
	var got txtar.Archive
	add := func(name, text string) { got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(text)}) }
	for _, line := range []string{
		"status --listen=", "status --listen= --all", "check --listen=", "check --listen= -v", "explain swap",
		"validate /etc/good.yaml", "validate /etc/bad.yaml" + of, "plan --config=/etc/good.yaml" + of,
	} {
		args := strings.Fields(line)
		status, piped, _ := n.run(args...)
		add(fmt.Sprintf("%s, status %d", line, status), piped)
		before := ""
		for _, columns := range []int{120, 80} {
			_, text := n.shown(columns, []string{"TERM=xterm", "NO_COLOR=1"}, args...)
			if other := without(text, piped); other != before {
				before = other
				add(fmt.Sprintf("%s, %d columns", line, columns), other)
			}
		}
	}
	commands := newApp(host.This(), nil, nil).Commands
	lines := append(make([]string, 0, 3+len(commands)), "recommend", "", "--help")
	for _, command := range commands {
		lines = append(lines, command.Name+" --help")
	}
	for _, line := range lines {
		run := n.run
		if strings.Contains(line, "--help") {
			run = n.here
		}
		status, stdout, stderr := run(strings.Fields(line)...)
		add(fmt.Sprintf("%s, status %d", line, status), stdout+stderr)
	}
	if *update {
		if err := os.WriteFile(screens, txtar.Format(&got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := txtar.ParseFile(screens)
	if err != nil || len(want.Files) != len(got.Files) {
		t.Fatalf("%v, or another number of screens: -update writes them", err)
	}
	for i, f := range got.Files {
		if f.Name != want.Files[i].Name || string(f.Data) != string(want.Files[i].Data) {
			t.Errorf("%s:\n%s\nwant %s:\n%s", f.Name, f.Data, want.Files[i].Name, want.Files[i].Data)
		}
	}
}
