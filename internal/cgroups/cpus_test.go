package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
)

func TestCPUs(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Every other CPU of a large machine: a list that no buffer for a number holds.
	var odd []int
	for cpu := 1; cpu < 1024; cpu += 2 {
		odd = append(odd, cpu)
	}
	alternating := cpuset.New(odd...)
	for name, test := range map[string]struct {
		given, effective         string
		wantGiven, wantEffective cpuset.CPUSet
		fails                    string
	}{
		"none of its own":  {"\n", "0-3\n", cpuset.New(), cpuset.New(0, 1, 2, 3), ""},
		"one that is gone": {"0-1\n", "0\n", cpuset.New(0, 1), cpuset.New(0), ""},
		"a long list":      {alternating.String() + "\n", alternating.String() + "\n", alternating, alternating, ""},
		"no list":          {"0-\n", "0\n", cpuset.New(), cpuset.New(), "cpuset.cpus"},
	} {
		write("cpuset.cpus", test.given)
		write("cpuset.cpus.effective", test.effective)
		given, effective, err := FS(root).CPUs("")
		switch {
		case test.fails != "":
			if err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%s: error %v, want one about %s", name, err, test.fails)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !given.Equals(test.wantGiven) || !effective.Equals(test.wantEffective):
			t.Errorf("%s: %s and %s, want %s and %s", name, given, effective, test.wantGiven, test.wantEffective)
		}
	}
	if _, _, err := FS(root).CPUs("removed"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v", err)
	}
}
