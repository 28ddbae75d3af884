package interrupts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
)

// node is a folder with the files of four CPUs, in which all interrupts may go to all of them.
type node struct {
	*testing.T
	root string
}

func newNode(t *testing.T) node {
	t.Helper()
	n := node{t, t.TempDir()}
	n.write(DefaultAffinity, "f\n")
	return n
}

func (n node) write(name, text string) {
	n.Helper()
	path := filepath.Join(n.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		n.Fatal(err)
	}
}

// read returns the content of a file without white space around it; empty without one.
func (n node) read(name string) string {
	n.Helper()
	data, err := os.ReadFile(filepath.Join(n.root, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

var (
	none   = cpuset.New()
	online = cpuset.New(0, 1, 2, 3)
)

// TestSetDefault: the value that was found comes back exactly, unless something else has written
// another one since.
func TestSetDefault(t *testing.T) {
	t.Parallel()
	type run struct {
		foreign string // what something else writes before; empty for nothing
		keep    cpuset.CPUSet
		want    string
		says    string // a part of the note or of the error; empty for none
	}
	for name, runs := range map[string][]run{
		"never on":            {{"", none, "f", ""}},
		"on and off":          {{"", cpuset.New(2, 3), "3", ""}, {"", none, "f", ""}, {"", none, "f", ""}},
		"on twice":            {{"", cpuset.New(3), "7", ""}, {"", cpuset.New(3), "7", ""}, {"", none, "f", ""}},
		"other CPUs":          {{"", cpuset.New(2, 3), "3", ""}, {"", cpuset.New(1), "d", ""}, {"", cpuset.New(3), "7", ""}, {"", none, "f", ""}},
		"an operator's value": {{"e", cpuset.New(3), "6", ""}, {"", none, "e", ""}},
		"nothing to take":     {{"3", cpuset.New(2), "3", ""}, {"", none, "3", ""}, {"f", none, "f", ""}},
		"CRI-O takes one more": {
			{"", cpuset.New(3), "7", ""}, {"5", cpuset.New(3), "5", ""},
			{"", none, "5", "is 5, which something else has written since; leaving it. It was f before IRQ_CPUS"}, {"", none, "5", ""},
		},
		"CRI-O takes one more and gives it back": {
			{"", cpuset.New(3), "7", ""}, {"5", cpuset.New(3), "5", ""}, {"7", cpuset.New(3), "7", ""}, {"", none, "f", ""},
		},
		"written back by hand while on": {{"", cpuset.New(3), "7", ""}, {"f", cpuset.New(3), "7", ""}, {"", none, "f", ""}},
		"another one by hand while on":  {{"", cpuset.New(3), "7", ""}, {"c", cpuset.New(3), "4", ""}, {"", none, "c", ""}},
		"off by hand before":            {{"", cpuset.New(3), "7", ""}, {"f", none, "f", ""}, {"", none, "f", ""}},
		"no CPU would be left": {
			{"c", cpuset.New(2, 3), "c", "without the CPUs 2-3 it has no online CPU: leaving c"}, {"", none, "c", ""},
		},
		"no online CPU would be left": {{"1c", cpuset.New(2, 3), "1c", "it has no online CPU"}},
		"no mask":                     {{"x", cpuset.New(2), "x", `default_smp_affinity: "x": is not a mask`}},
	} {
		n := newNode(t)
		for i, r := range runs {
			if r.foreign != "" {
				n.write(DefaultAffinity, r.foreign+"\n")
			}
			note, err := SetDefault(n.root, r.keep, online)
			said := note
			if err != nil {
				said = err.Error()
			}
			if got := n.read(DefaultAffinity); got != r.want || (said == "") != (r.says == "") || !strings.Contains(said, r.says) {
				t.Errorf("%s: run %d: %s, %q; want %s, %q", name, i+1, got, said, r.want, r.says)
			}
		}
		if last := runs[len(runs)-1]; last.keep.IsEmpty() && n.read(stateFile) != "" {
			t.Errorf("%s: %s is left", name, stateFile)
		}
	}
}

// TestSetDefaultKilled: whatever runs are killed, and wherever, a whole run to keep interrupts off
// does so, and one to put back puts back what was there before all of them.
func TestSetDefaultKilled(t *testing.T) {
	t.Parallel()
	keeps := []cpuset.CPUSet{none, cpuset.New(2, 3), cpuset.New(3)}
	const stages = 4 // before the record, before the value, before the end, whole
	sequences := 0
	var try func(name, current string, saved *record, left int)
	try = func(name, current string, saved *record, left int) {
		sequences++
		for _, keep := range keeps {
			s, err := next(current, saved, keep, online)
			if err != nil || s.note != "" {
				t.Fatalf("%s: %v, %q", name, err, s.note)
			}
			value, record := current, saved
			for stage := range stages {
				switch {
				case stage == 1 && s.save != nil:
					record = s.save
				case stage == 2 && s.write != "":
					value = s.write
				case stage == 3 && s.forget:
					record = nil
				}
				at := fmt.Sprintf("%s, off %s until %d", name, keep, stage)
				if stage == stages-1 {
					if want := without("f", keep); value != want || keep.IsEmpty() && record != nil {
						t.Errorf("%s: %s, %+v; want %s", at, value, record, want)
					}
				}
				if left > 0 {
					try(at, value, record, left-1)
				}
			}
		}
	}
	try("found f", "f", nil, 3)
	if sequences < 1000 {
		t.Errorf("%d sequences of runs: too few to show anything", sequences)
	}
}

// TestSetDefaultFails: a record that cannot be read or written keeps the value from being changed,
// which could not be put back.
func TestSetDefaultFails(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.write(stateFile, "half a rec")
	if _, err := SetDefault(n.root, cpuset.New(3), online); err == nil || !strings.Contains(err.Error(), "/run/node-partition/interrupts.json: ") {
		t.Errorf("%v; want the file named", err)
	}
	blocked := newNode(t)
	blocked.write("/run/node-partition", "")
	if _, err := SetDefault(blocked.root, cpuset.New(3), online); err == nil {
		t.Error("no error without a place for the record")
	}
	for _, n := range []node{n, blocked} {
		if got := n.read(DefaultAffinity); got != "f" {
			t.Errorf("%s was written", got)
		}
	}
	missing := node{t, t.TempDir()}
	if _, err := SetDefault(missing.root, cpuset.New(3), online); err == nil || !strings.Contains(err.Error(), DefaultAffinity) {
		t.Errorf("%v; want the file named", err)
	}
}
