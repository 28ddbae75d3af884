//go:build node

package onnode

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
)

// A partition of 512 MiB whose pods should be evicted when 128 MiB are left, and the time for which
// nobody evicts them.
const (
	highProbe      = "highprobe"
	highLimit      = 512 << 20
	highThreshold  = 128 << 20
	highUnanswered = 10 * time.Second
)

// allocate touches memory, page by page.
func allocate(bytes int) []byte {
	memory, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	return memory
}

// grow takes 150 MiB as fast as it can, and keeps them.
func grow() {
	for range 150 {
		allocate(1 << 20)
	}
	<-time.After(time.Hour) // select{} would be a deadlock, which ends the program
}

// bystander takes memory and frees it again, and prints the milliseconds that it has waited.
func bystander() {
	for {
		start := time.Now()
		if err := syscall.Munmap(allocate(256 << 10)); err != nil {
			panic(err)
		}
		fmt.Println(time.Since(start).Milliseconds())
	}
}

// TestHigh measures what docs/memory-pressure.md says of memory.high and memory.pressure. The first
// keeps those who grow from the limit, and others in the partition who allocate wait, too. The
// second is zero until the kernel kills.
func TestHigh(t *testing.T) {
	for high, kills := range map[string]bool{"max": true, strconv.Itoa(highLimit - highThreshold): false} {
		t.Run(high, func(t *testing.T) {
			shell(t, fmt.Sprintf("cd %s && mkdir %s && cd %[2]s && echo +memory >cgroup.subtree_control && echo %d >memory.max && echo %s >memory.high",
				cgroups.Mount, highProbe, highLimit, high))
			t.Cleanup(func() { shell(t, "rmdir "+tree.Path(highProbe)) })
			rounds, err := os.Create(filepath.Join(t.TempDir(), "rounds"))
			if err != nil {
				t.Fatal(err)
			}
			defer rounds.Close()
			start := time.Now()
			highMember(t, "bystander", rounds)
			eventually(t, "the bystander has worked alone", func() bool { return tell(t, rounds) > 2000 })
			alone, before := time.Since(start), tell(t, rounds)
			for i := range 4 {
				highMember(t, fmt.Sprint("grow", i), nil)
			}
			eventually(t, "the threshold is crossed", func() bool { return highUsed(t) >= highLimit-highThreshold })
			crossed := tell(t, rounds)
			longest := highUnanswered
			if kills {
				longest = patience // a busy node is slow to fill it
			}
			took, most, killed, pressure := highWatched(t, longest)
			if (killed > 0) != kills {
				t.Errorf("%d processes were killed, and %d MiB used at most", killed, most>>20)
			}
			data, err := os.ReadFile(rounds.Name())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("in %s %d were killed, %d MiB used at most; a bystander alone %s; beside them %s; %s",
				took, killed, most>>20, pace(t, data[:before], alone), pace(t, data[crossed:], took), pressure)
		})
	}
}

// highMember starts this program in a cgroup of the partition.
func highMember(t *testing.T, name string, stdout *os.File) {
	t.Helper()
	cgroup := filepath.Join(tree.Path(highProbe), name)
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, cgroup, os.Args[0], strings.TrimRight(name, "0123456789"))
	cmd.Stdout = stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if err := os.Remove(cgroup); err != nil {
			t.Error(err)
		}
	})
}

func highUsed(t *testing.T) uint64 {
	t.Helper()
	used, err := tree.MemoryCurrent(highProbe)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// highWatched watches the partition until the kernel kills in it, or for the longest time. pressure
// is its memory.pressure when 32 MiB were last left.
func highWatched(t *testing.T, longest time.Duration) (took time.Duration, most, killed uint64, pressure string) {
	t.Helper()
	for start := time.Now(); took < longest && killed == 0; took = time.Since(start).Round(time.Millisecond) {
		var err error
		if killed, err = tree.Kills(highProbe); err != nil {
			t.Fatal(err)
		}
		most = max(most, highUsed(t))
		if most < highLimit-32<<20 {
			pressure, _, _ = strings.Cut(file(t, highProbe, "memory.pressure"), "\n")
		}
	}
	return took, most, killed, pressure
}

// tell returns how much a process has written so far.
func tell(t *testing.T, f *os.File) int64 {
	t.Helper()
	position, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		t.Fatal(err)
	}
	return position
}

// pace says how often a bystander has allocated in a time, and how long it has waited at most.
func pace(t *testing.T, lines []byte, in time.Duration) string {
	t.Helper()
	var waits []int
	for text := range strings.FieldsSeq(string(lines)) {
		ms, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, ms)
	}
	return fmt.Sprintf("%.0f times a second, %d ms at most", float64(len(waits))/in.Seconds(), slices.Max(append(waits, 0)))
}
