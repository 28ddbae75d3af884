package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sample has one folder for each kind of node that Stat supports.
const sample = FS("testdata/stat")

func TestStat(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		want       Stat
		workingSet uint64
	}{
		// Linux 6.12 with all controllers.
		"all": {Stat{
			Usage:     Usage{HasMemory: true, MemoryCurrent: 100 << 20, InactiveFile: 20 << 20, CPUTime: 12345678 * time.Microsecond},
			MemoryMax: 512 << 20, SwapCurrent: 4096,
			MemoryEvents:      MemoryEvents{Max: 12, OOM: 2, OOMKill: 5},
			LocalMemoryEvents: MemoryEvents{Max: 7, OOM: 1},
			HasCPU:            true, CPUWeight: 59, ThrottledPeriods: 4, ThrottledTime: 250 * time.Millisecond,
			HasPids: true, Pids: 42, PidsMax: 4096,
			MemoryPressure: Pressure{Known: true, Some: 3 * time.Second, Full: 1500 * time.Millisecond},
			CPUPressure:    Pressure{Known: true, Some: 700 * time.Microsecond, Full: 500 * time.Microsecond},
			IOPressure:     Pressure{Known: true, Some: 90 * time.Second, Full: 80 * time.Second},
		}, 80 << 20},
		// No controller and no pressure.
		"off": {Stat{Usage: Usage{CPUTime: 5 * time.Millisecond}, MemoryMax: Unlimited, PidsMax: Unlimited}, 0},
		// Before memory.events.local, oom_kill and the line full of cpu.pressure. Inactive page cache
		// exceeds usage, as they are read at different times. Some lines are unknown.
		"old": {Stat{
			Usage:     Usage{HasMemory: true, MemoryCurrent: 4096, InactiveFile: 8192, CPUTime: 7 * time.Microsecond},
			MemoryMax: Unlimited, HasCPU: true, CPUWeight: 100, HasPids: true, Pids: 3, PidsMax: Unlimited,
			CPUPressure: Pressure{Known: true, Some: 9 * time.Microsecond},
		}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := sample.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("Stat:\ngot  %+v\nwant %+v", got, test.want)
			}
			if got.WorkingSet() != test.workingSet {
				t.Errorf("WorkingSet: got %d, want %d", got.WorkingSet(), test.workingSet)
			}
			usage, err := sample.Usage(name)
			if err != nil {
				t.Fatal(err)
			}
			if usage != test.want.Usage {
				t.Errorf("Usage:\ngot  %+v\nwant %+v", usage, test.want.Usage)
			}
		})
	}
}

func TestStatMissing(t *testing.T) {
	t.Parallel()
	if _, err := sample.Stat("gone.slice"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat: got %v, want fs.ErrNotExist", err)
	}
	if _, err := sample.Usage("all/memory.stat"); err == nil || !strings.Contains(err.Error(), "all/memory.stat/memory.current: not a directory") {
		t.Errorf("Usage of a file: got %v, want an error that says so", err)
	}
}

// A cgroup that is removed while it is read must not look like one with all controllers off.
func TestStatRemoved(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "pod.slice"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := files{root: FS(root), cgroup: "pod.slice"}
	if err := os.Remove(filepath.Join(root, "pod.slice")); err != nil {
		t.Fatal(err)
	}
	if files.number("memory.current", new(uint64)) {
		t.Error("memory.current is still there")
	}
	if err := files.result(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestStatBrokenFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, text, want string }{
		"number":   {"memory.current", "-1\n", `memory.current: strconv.ParseUint: parsing "-1": invalid syntax`},
		"empty":    {"pids.max", "", `pids.max: strconv.ParseUint: parsing "": invalid syntax`},
		"keyed":    {"memory.stat", "inactive_file ten\n", `memory.stat: inactive_file: strconv.ParseUint: parsing "ten": invalid syntax`},
		"pressure": {"io.pressure", "some total=\n", `io.pressure: some: strconv.ParseUint: parsing "": invalid syntax`},
		"long":     {"memory.stat", strings.Repeat("x 1\n", maxFile), "memory.stat: holds 8192 bytes or more: not a file of a cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.WriteFile(filepath.Join(root, test.file), []byte(test.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := FS(root).Stat(".")
			if err == nil || err.Error() != filepath.Join(root, test.want) {
				t.Errorf("got %v, want %s", err, filepath.Join(root, test.want))
			}
		})
	}
}

// A scrape reads hundreds of cgroups: the only allocations left are a path for each cgroup, and a
// name for each system call.
func TestUsageAllocations(t *testing.T) {
	const cgroup, most = "all", 6
	if n := testing.AllocsPerRun(100, func() {
		if _, err := sample.Usage(cgroup); err != nil {
			t.Error(err)
		}
	}); n > most {
		t.Errorf("%v allocations, want at most %d", n, most)
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("some avg10=1.25 avg60=0.50 avg300=0.10 total=3000000\nfull total=18446744073709551615\n"))
	f.Add([]byte("low 0\nhigh 3\nmax 12\noom 2\noom_kill 5\n"))
	f.Add([]byte("max\n"))
	f.Add([]byte("usage_usec  1\n\n \n=\nusage_usec"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var n, m uint64
		if err := parseKeyed(data, []keyed{{"max", &n}, {"usage_usec", &m}}); err == nil && microseconds(m) < 0 {
			t.Errorf("%d µs is negative", m)
		}
		if p, err := parsePressure(data); err == nil && (p.Some < 0 || p.Full < 0) {
			t.Errorf("negative: %+v", p)
		}
	})
}
