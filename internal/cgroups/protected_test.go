package cgroups

import (
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/tests/testkit"
)

// memoryFiles returns the files of a cgroup with so much anonymous memory, page cache and
// memory.min.
func memoryFiles(cgroup string, anonymous, cache uint64, settings ...string) map[string]string {
	files := map[string]string{
		cgroup + "/memory.current": strconv.FormatUint(anonymous+cache, 10) + "\n", cgroup + "/memory.max": "max\n",
		cgroup + "/memory.stat": "inactive_file 0\nactive_file " + strconv.FormatUint(cache, 10) + "\nslab_reclaimable 0\n",
	}
	for i := 0; i+1 < len(settings); i += 2 {
		files[cgroup+"/"+settings[i]] = settings[i+1] + "\n"
	}
	return files
}

// TestMemoryMeterProtected: page cache below memory.min of a pod cannot be reclaimed. Only pods
// protect theirs, as far as the slices above them do: the memory.min of the cgroup itself is for
// the reclaim of those above it. memory.low ends before the kernel kills.
func TestMemoryMeterProtected(t *testing.T) {
	t.Parallel()
	const pod, burstable = "p.slice/p-pod1.slice", "p.slice/p-burstable.slice"
	for name, test := range map[string]struct {
		files []map[string]string
		want  uint64
	}{
		"memory.min above the usage": {[]map[string]string{memoryFiles(pod, 100, 900, "memory.min", "1024")}, 900},
		"memory.min within the page cache": {
			[]map[string]string{memoryFiles(pod, 100, 900, "memory.min", "400")}, 300,
		},
		"memory.min within the anonymous memory": {[]map[string]string{memoryFiles(pod, 500, 400, "memory.min", "400")}, 0},
		"no bound":                               {[]map[string]string{memoryFiles(pod, 1, 900, "memory.min", "max")}, 900},
		"memory.low":                             {[]map[string]string{memoryFiles(pod, 100, 900, "memory.low", "1024", "memory.min", "0")}, 0},
		"both":                                   {[]map[string]string{memoryFiles(pod, 100, 900, "memory.low", "1024", "memory.min", "200")}, 100},
		"none":                                   {[]map[string]string{memoryFiles(pod, 100, 900)}, 0},
		"two pods": {
			[]map[string]string{
				memoryFiles(pod, 100, 300, "memory.min", "400"), memoryFiles("p.slice/p-pod2.slice", 0, 200, "memory.min", "50"),
			}, 350,
		},
		"a container has no more than its pod": {
			[]map[string]string{memoryFiles(pod, 100, 900), memoryFiles(pod+"/a.scope", 100, 900, "memory.min", "1000")}, 0,
		},
		"a container of a pod counts once": {
			[]map[string]string{
				memoryFiles(pod, 100, 900, "memory.min", "1000"), memoryFiles(pod+"/a.scope", 100, 900, "memory.min", "1000"),
			}, 900,
		},
		"below a slice with less": {
			[]map[string]string{
				memoryFiles(burstable, 100, 900, "memory.min", "600"), memoryFiles(burstable+"/p-burstable-pod3.slice", 100, 900, "memory.min", "1000"),
			}, 500,
		},
		"below a slice without": {
			[]map[string]string{
				memoryFiles(burstable, 100, 900, "memory.min", "0"), memoryFiles(burstable+"/p-burstable-pod3.slice", 100, 900, "memory.min", "1000"),
			}, 0,
		},
		"a pod that is about to go": {[]map[string]string{{pod + "/memory.min": "1024\n"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := FS(t.TempDir())
			write(t, root, memoryFiles("p.slice", 1000, 5000, "memory.min", "6000"))
			for _, files := range test.files {
				write(t, root, files)
			}
			got, err := meterOf(t, root, "p.slice").Read(never)
			if err != nil || got.Protected != test.want || got.Used() != 1000+test.want {
				t.Errorf("%d bytes are protected, %d used, %v; want %d protected", got.Protected, got.Used(), err, test.want)
			}
		})
	}
}

// TestMemoryMeterProtectedLater: pods that come and go are found after a while. The files of those
// that are gone are closed.
func TestMemoryMeterProtectedLater(t *testing.T) {
	root := FS(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		write(t, root, memoryFiles("p.slice", 1000, 5000))
		m, err := root.MemoryMeter("p.slice")
		if err != nil {
			t.Fatal(err)
		}
		expect := func(want uint64, files int) {
			t.Helper()
			got, err := m.Read(never)
			if open := testkit.OpenBelow(t, string(root)); err != nil || got.Protected != want || len(open) != files {
				t.Errorf("%d bytes are protected, %v, and open are %v; want %d and %d files", got.Protected, err, open, want, files)
			}
		}
		pod := memoryFiles("p.slice/p-pod1.slice", 100, 900, "memory.min", "1000")
		expect(0, 3)
		write(t, root, pod)
		<-time.After(reservesInterval)
		expect(900, 6)
		write(t, root, memoryFiles("p.slice/p-pod1.slice", 100, 200))
		expect(200, 6)
		write(t, root, map[string]string{"p.slice/p-pod1.slice/memory.min": "0\n"})
		<-time.After(reservesInterval)
		expect(0, 3)
		write(t, root, pod)
		<-time.After(reservesInterval)
		expect(900, 6)
		m.Close()
		if open := testkit.OpenBelow(t, string(root)); len(open) != 0 {
			t.Errorf("open are %v", open)
		}
	})
}

// TestMemoryMeterProtectedBroken: a file that is not one of the kernel's is an error, and no reason
// to count page cache as free.
func TestMemoryMeterProtectedBroken(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]map[string]string{
		"memory.min": {"memory.min": "much\n"}, "memory.stat": {"memory.stat": "active_file x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := FS(t.TempDir())
			pod := memoryFiles("p.slice/p-pod1.slice", 100, 900, "memory.min", "1000")
			for file, text := range broken {
				maps.Copy(pod, map[string]string{"p.slice/p-pod1.slice/" + file: text})
			}
			write(t, root, memoryFiles("p.slice", 1000, 5000))
			write(t, root, pod)
			m := meterOf(t, root, "p.slice")
			for range 2 {
				if got, err := m.Read(never); err == nil {
					t.Errorf("read %+v", got)
				}
			}
		})
	}
}

// TestMemoryProtected: the memory of a pod that its own memory.min protects comes back only when
// its cgroup is removed.
func TestMemoryProtected(t *testing.T) {
	t.Parallel()
	root := FS(t.TempDir())
	write(t, root, memoryFiles("a.slice", 100, 900, "memory.min", "400", "memory.low", "800"))
	if got, err := root.Memory("a.slice"); err != nil || got.Used() != 400 {
		t.Errorf("%d bytes are used, %v; want 400", got.Used(), err)
	}
}
