package recommend

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"nodepartition/internal/samples"
)

var update = flag.Bool("update", false, "write the expected output")

// usualNode is the node of the histories.
var usualNode = samples.Node{CPUs: 8, MemoryBytes: 16 << 30, PageBytes: 4096, Pods: 40}

// TestRecommendGolden: the output for each of the histories. docs/history.md has the figures in a
// table, with the reason why they are right.
func TestRecommendGolden(t *testing.T) {
	const golden, page = "testdata/recommended.txtar", "../../../docs/history.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := &txtar.Archive{Comment: []byte("What recommend writes for the histories of histories_test.go.\n" +
		"go test ./internal/command/recommend -update writes it.\n\n")}
	for _, m := range histories() {
		a := m.advise(t, usualNode)
		var out bytes.Buffer
		if err := WriteYAML(&out, a); err != nil {
			t.Fatal(err)
		}
		got.Files = append(got.Files, txtar.File{Name: m.name, Data: out.Bytes()})
		row := fmt.Sprintf("| %s | %s, %s | %s, %s |", m.name, quantity(a.MemoryLimit.Bytes), quantity(a.EvictionHard.Bytes),
			quantity(a.KubeReserved.Memory.Bytes), quantity(a.SystemReserved.WithPartition.Bytes))
		if !strings.Contains(string(text), row) {
			t.Errorf("%s does not have\n%s", page, row)
		}
		if err := a.Verdict(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if *update {
		if err := os.WriteFile(golden, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(txtar.Format(got), want) {
		t.Errorf("%s is not what recommend writes; -update writes it, then read the difference:\n%s", golden, txtar.Format(got))
	}
}
