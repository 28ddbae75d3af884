package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestCPU: the quota is read as the kernel has it, without rounding.
func TestCPU(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		weight, most string
		want         CPU
		fails        bool
	}{
		"without a limit": {"100", "max 100000", CPU{100, Unlimited, 100_000}, false},
		"with a limit":    {"1", "50500 100000", CPU{1, 50_500, 100_000}, false},
		"another period":  {"10000", "1000 1000000", CPU{10_000, 1000, 1_000_000}, false},
		"idle":            {"0", "max 100000", CPU{0, Unlimited, 100_000}, false},
		"no weight":       {"x", "max 100000", CPU{}, true},
		"no period":       {"1", "max", CPU{}, true},
		"no quota":        {"1", "x 100000", CPU{}, true},
		"a bad period":    {"1", "max -1", CPU{}, true},
	} {
		root := FS(t.TempDir())
		for file, text := range map[string]string{"cpu.weight": test.weight, "cpu.max": test.most} {
			if err := os.WriteFile(filepath.Join(string(root), file), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := root.CPU(""); got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
	if _, err := FS(t.TempDir()).CPU("gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a cgroup that is gone: %v", err)
	}
}
