package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"node-partition.io/node-partition/tests/testkit"
)

func write(t *testing.T, root FS, files map[string]string) {
	t.Helper()
	testkit.WriteFiles(t, string(root), files)
}

func never(uint64, uint64) bool { return false }

func meterOf(t *testing.T, root FS, cgroup string) *MemoryMeter {
	t.Helper()
	m, err := root.MemoryMeter(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func TestMemoryMeter(t *testing.T) {
	t.Parallel()
	root := FS(t.TempDir())
	write(t, root, map[string]string{
		"s/memory.current": "1000\n", "s/memory.max": "max\n",
		"s/memory.stat": "anon 1\nfile 2\ninactive_anon 3\ninactive_file 200\nactive_file 100\nslab_reclaimable 50\nslab 60\n",
	})
	m := meterOf(t, root, "s")
	got, err := m.Read(never)
	if want := (MemoryReading{Current: 1000, Max: Unlimited, InactiveFile: 200, ActiveFile: 100, SlabReclaimable: 50}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	// The files stay open, and each reading is a new one, even of a file that became shorter.
	write(t, root, map[string]string{"s/memory.current": "7\n", "s/memory.max": "4096\n", "s/memory.stat": "active_file 1\n"})
	got, err = m.Read(never)
	if want := (MemoryReading{Current: 7, Max: 4096, ActiveFile: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// TestMemoryMeterChanges: memory that is freed or charged between the two reads of memory.current
// does not count as used. Before Linux 6.8 memory.stat may lag behind both.
func TestMemoryMeterChanges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{"400\n": 400, "1500\n": 1000} {
		root := FS(t.TempDir())
		write(t, root, map[string]string{"memory.current": "1000\n", "memory.max": "5000\n", "memory.stat": "inactive_file 10\n"})
		got, err := meterOf(t, root, ".").Read(func(uint64, uint64) bool {
			write(t, root, map[string]string{"memory.current": text})
			return false
		})
		if err != nil || got.Current != want || got.InactiveFile != 10 {
			t.Errorf("1000 became %q: %+v, %v; want %d bytes", text, got, err, want)
		}
	}
}

// TestMemoryMeterSkipsStat: a memory.stat that cannot be parsed is not read without need.
func TestMemoryMeterSkipsStat(t *testing.T) {
	t.Parallel()
	root := FS(t.TempDir())
	write(t, root, map[string]string{"memory.current": "1000\n", "memory.max": "5000\n", "memory.stat": "inactive_file x\n"})
	m := meterOf(t, root, ".")
	got, err := m.Read(func(current, limit uint64) bool {
		if current != 1000 || limit != 5000 {
			t.Errorf("asked whether %d of %d is little", current, limit)
		}
		return true
	})
	if want := (MemoryReading{Current: 1000, Max: 5000}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	_, err = m.Read(never)
	want := filepath.Join(string(root), "memory.stat") + `: inactive_file: strconv.ParseUint: parsing "x": invalid syntax`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestMemoryMeterBrokenFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, text string }{
		"current": {"memory.current", "-1\n"}, "nothing": {"memory.current", "\n"}, "limit": {"memory.max", "none\n"}, "empty": {"memory.max", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := FS(t.TempDir())
			write(t, root, map[string]string{"memory.current": "1\n", "memory.max": "2\n", "memory.stat": ""})
			write(t, root, map[string]string{test.file: test.text})
			if _, err := meterOf(t, root, ".").Read(never); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(string(root), test.file)+": ") {
				t.Errorf("got %v, want an error of %s", err, test.file)
			}
		})
	}
}

func TestMemoryMeterMissing(t *testing.T) {
	t.Parallel()
	root := FS(t.TempDir())
	all := map[string]string{"memory.current": "1\n", "memory.max": "2\n", "memory.stat": ""}
	for missing := range all {
		cgroup := "without-" + missing
		for name, text := range all {
			if name != missing {
				write(t, root, map[string]string{filepath.Join(cgroup, name): text})
			}
		}
		before := testkit.OpenBelow(t, string(root))
		_, err := root.MemoryMeter(cgroup)
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: got %v, want fs.ErrNotExist", cgroup, err)
		}
		if after := testkit.OpenBelow(t, string(root)); len(after) != len(before) {
			t.Errorf("%s: files are left open: %v", cgroup, after)
		}
	}
	if _, err := root.MemoryMeter("gone.slice"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

// TestMemoryMeterRemoved: the kernel answers ENODEV for a file of a cgroup that was removed.
func TestMemoryMeterRemoved(t *testing.T) {
	t.Parallel()
	err := gone(&os.PathError{Op: "read", Path: "memory.current", Err: unix.ENODEV})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestOOMEvents(t *testing.T) {
	t.Parallel()
	root := FS(t.TempDir())
	write(t, root, map[string]string{"s/memory.current": "1", "s/memory.max": "max", "s/memory.stat": ""})
	m := meterOf(t, root, "s")
	for _, test := range []struct {
		all, local      string
		killed, atLimit uint64
	}{
		{"", "", 0, 0},
		{"low 0\nmax 7\noom 2\noom_kill 5\n", "max 7\noom 1\noom_kill 4\n", 5, 1},
		{"oom_kill 6\n", "oom 9\n", 6, 9}, // the files stay open
	} {
		if test.all != "" {
			write(t, root, map[string]string{"s/memory.events": test.all, "s/memory.events.local": test.local})
		}
		killed, atLimit, err := m.OOMEvents()
		if err != nil || killed != test.killed || atLimit != test.atLimit {
			t.Errorf("got %d, %d, %v; want %+v", killed, atLimit, err, test)
		}
	}
	write(t, root, map[string]string{"s/memory.events": "oom_kill many\n"})
	if _, _, err := m.OOMEvents(); err == nil {
		t.Error("OOMEvents accepts a count that is no number")
	}
}

// TestKills: the kills of any limit.
func TestKills(t *testing.T) {
	t.Parallel()
	for cgroup, want := range map[string]uint64{"all": 5, "old": 0} {
		if killed, err := sample.Kills(cgroup); err != nil || killed != want {
			t.Errorf("%s: got %d, %v; want %d", cgroup, killed, err, want)
		}
	}
	if _, err := sample.Kills("gone.slice"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}
