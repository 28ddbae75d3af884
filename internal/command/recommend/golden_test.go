package recommend

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
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
	compare(t, golden, got)
}

// compare compares an archive with a golden file.
func compare(t *testing.T, golden string, got *txtar.Archive) {
	t.Helper()
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

// TestRecommendPartitionGolden: the output for a workload partition, beside a system partition with
// another usage. A system partition with the same usage gets the same limit, and the figures of the
// node, too. A partition that is younger than the history, or was removed for a time, is judged by
// its own time.
func TestRecommendPartitionGolden(t *testing.T) {
	got := &txtar.Archive{Comment: []byte("What recommend --partition=telemetry writes for histories of histories_test.go,\n" +
		"in which telemetry has the usage. go test ./internal/command/recommend -update writes it.\n\n")}
	from := func(first time.Duration) func(time.Duration) bool {
		return func(since time.Duration) bool { return since > first }
	}
	removed := func(since time.Duration) bool { return since < 3*day || since > 5*day }
	for _, test := range []struct {
		name, like string
		has        func(since time.Duration) bool
	}{
		{"nightly batch", "nightly batch", from(0)}, {"leak in a member", "leak in a member", from(0)},
		{"for half a day", "steady", from(8*day - day/2)}, {"for two days", "steady", from(6 * day)},
		{"removed for two days", "steady", removed},
	} {
		of := named(test.like)
		a, err := adviseOf(t, of.beside(test.has), "telemetry")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := WriteYAML(&out, a); err != nil {
			t.Fatal(err)
		}
		got.Files = append(got.Files, txtar.File{Name: test.name, Data: out.Bytes()})
		if a.KubeReserved != nil || a.SystemReserved != nil {
			t.Errorf("%s: figures of the node: %+v, %+v", test.name, a.KubeReserved, a.SystemReserved)
		}
		if alone := of.advise(t, usualNode); test.name == test.like && a.MemoryLimit.Bytes != alone.MemoryLimit.Bytes {
			t.Errorf("%s: %d; of the system partition %d", test.name, a.MemoryLimit.Bytes, alone.MemoryLimit.Bytes)
		}
	}
	compare(t, "testdata/partition.txtar", got)
}

// TestRecommendSystemBeside: what recommend writes for the system partition is the same, byte for
// byte, whether or not the node has another partition.
func TestRecommendSystemBeside(t *testing.T) {
	t.Parallel()
	always := func(time.Duration) bool { return true }
	for _, m := range histories() {
		text := func(h samples.History, name unitname.PartitionName) string {
			a, err := adviseOf(t, h, name)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := errors.Join(WriteYAML(&out, a), WriteJSON(&out, a)); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		alone := text(m.samples(usualNode), "")
		h := named("nightly batch").beside(always)
		of := m.samples(usualNode)
		for i := range h.Tens { // telemetry beside the system partition of m
			others := h.Tens[i].Others
			h.Tens[i] = of.Tens[i]
			h.Tens[i].Others = others
		}
		if got := text(h, ""); got != alone || text(h, unitname.System) != alone {
			t.Errorf("%s: %s\nalone:\n%s", m.name, got, alone)
		}
	}
}
