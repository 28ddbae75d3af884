package samples

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var start = time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC)

// minute returns the sample of a minute after start, with a usage in MiB.
func minute(n int, mebi uint64) Sample {
	t := start.Add(time.Duration(n) * time.Minute)
	return Sample{
		Time: t, Seconds: 60, Boot: "0a1b2c3d",
		Partition: &Usage{UsedPeakBytes: mebi << 20, UsedLowBytes: mebi << 20, CurrentPeakBytes: mebi << 21, LimitBytes: 1 << 30, HardBytes: 52 << 20, PeakTime: t},
		Groups:    []Group{{Name: "system.slice", WorkingSetBytes: 300 << 20, MilliCPU: 120}, {Name: "system.slice/kubelet.service", Kube: true, WorkingSetBytes: 90 << 20, MilliCPU: 40}},
	}
}

func open(t *testing.T, dir string) *Ring {
	t.Helper()
	r, err := Open(dir, func(err error) { t.Errorf("notice: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// add adds minutes, and fails the test for an error.
func add(t *testing.T, r *Ring, from, to int, mebi uint64) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := r.Add(minute(n, mebi)); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, dir string) History {
	t.Helper()
	h, err := Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestRingRestart: a service that is restarted goes on where it was, and loses no minute.
func TestRingRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "history")
	r := open(t, dir)
	add(t, r, 0, 23, 100)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	add(t, r, 23, 40, 200)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	h := read(t, dir)
	if len(h.Minutes) != 40 || h.Broken != 0 || !h.Minutes[39].Time.Equal(start.Add(39*time.Minute)) {
		t.Errorf("%d minutes, %d broken", len(h.Minutes), h.Broken)
	}
	// The ten minutes of the restart are in one sample.
	seconds := uint32(0)
	for _, s := range h.Tens {
		seconds += s.Seconds
	}
	if len(h.Tens) != 4 || seconds != 40*60 || h.Tens[1].Partition.UsedPeakBytes != 100<<20 || h.Tens[2].Partition.UsedPeakBytes != 200<<20 {
		t.Errorf("%d samples of ten minutes, %d s", len(h.Tens), seconds)
	}
	if coarse := h.Coarse(); len(coarse) != 4 {
		t.Errorf("%d coarse samples: a minute counts twice", len(coarse))
	}
	if info, err := os.Stat(filepath.Join(dir, "minutes-000001.log")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestRingKilled: without Close at most the last minutes are missing, also those of ten minutes.
func TestRingKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add(t, open(t, dir), 0, 34, 100)
	h := read(t, dir)
	if len(h.Minutes) != 30 || len(h.Tens) != 3 {
		t.Errorf("%d minutes, %d tens; want 30 and 3", len(h.Minutes), len(h.Tens))
	}
	add(t, open(t, dir), 34, 50, 100)
	if coarse := read(t, dir).Coarse(); len(coarse) != 5 || coarse[3].Seconds != 6*60 {
		t.Errorf("%+v", coarse)
	}
}

// TestRingEvictionIsWritten: the minutes before an eviction are not lost with the node.
func TestRingEvictionIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	add(t, r, 0, 1, 100)
	s := minute(1, 900)
	s.Partition.Evicted = []string{"kube-system/collector"}
	if err := r.Add(s); err != nil {
		t.Fatal(err)
	}
	if h := read(t, dir); len(h.Minutes) != 2 || h.Minutes[1].Partition.Evicted[0] != "kube-system/collector" {
		t.Errorf("%+v", h)
	}
}

// TestRingTornLine: a line that a crash has cut off, or that a power loss has filled with zeros, is
// dropped. The lines before and after it stay.
func TestRingTornLine(t *testing.T) {
	t.Parallel()
	for name, tail := range map[string]string{
		"cut off":          `0badcafe {"time":"2026-11-09T0`,
		"cut in the sum":   "0bad",
		"zeros":            strings.Repeat("\x00", 3000),
		"zeros and an end": strings.Repeat("\x00", 3000) + "\n",
		"a flipped bit":    "00000000 {\"time\":\"2026-11-09T00:00:00Z\",\"seconds\":60}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			add(t, open(t, dir), 0, 10, 100)
			path := filepath.Join(dir, "minutes-000001.log")
			file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteString(tail); err != nil {
				t.Fatal(err)
			}
			file.Close()
			if h := read(t, dir); len(h.Minutes) != 10 {
				t.Errorf("before the restart %d minutes", len(h.Minutes))
			}
			add(t, open(t, dir), 10, 20, 100)
			if h := read(t, dir); len(h.Minutes) != 20 || h.Broken != 1 {
				t.Errorf("%d minutes, %d broken; want 20 and 1", len(h.Minutes), h.Broken)
			}
		})
	}
}

// TestRingDamagedFile: a file that is not ours is set aside with a message, and the ring goes on.
func TestRingDamagedFile(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"text":           "a\nb\nc\n",
		"no line at all": strings.Repeat("x", 3*maxLine),
		"long lines":     strings.Repeat(strings.Repeat("x", 2*maxLine)+"\n", 3),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			add(t, open(t, dir), 0, 10, 100)
			if err := os.WriteFile(filepath.Join(dir, "minutes-000002.log"), []byte(damage), 0o600); err != nil {
				t.Fatal(err)
			}
			var notices []string
			r, err := Open(dir, func(err error) { notices = append(notices, err.Error()) })
			if err != nil {
				t.Fatal(err)
			}
			if len(notices) != 1 || !strings.Contains(notices[0], "minutes-000002.log") || !strings.Contains(notices[0], "set aside as minutes.bad") {
				t.Errorf("%q", notices)
			}
			add(t, r, 10, 20, 100)
			if h := read(t, dir); len(h.Minutes) != 20 || h.Broken != 0 {
				t.Errorf("%d minutes, %d broken", len(h.Minutes), h.Broken)
			}
			if data, err := os.ReadFile(filepath.Join(dir, "minutes.bad")); err != nil || string(data) != damage {
				t.Errorf("the damaged file is gone: %v", err)
			}
		})
	}
}

// TestRingUnusableFolder: a file where the folder should be is an error with its path.
func TestRingUnusableFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, func(error) {}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if _, err := Read(t.Context(), filepath.Join(path, "none")); err == nil {
		t.Error("no error")
	}
	if _, err := Read(t.Context(), t.TempDir()+"/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestRingWrapsAround: after weeks the files are as large as after two, and hold the last two
// weeks.
func TestRingWrapsAround(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	const days = 21
	add(t, r, 0, days*24*60, 100)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	h := read(t, dir)
	if n := len(h.Minutes); n < 24*60 || n > 30*60 {
		t.Errorf("%d minutes; want those of a day, or up to six hours more", n)
	}
	if n := len(h.Tens); n < 14*144 || n > 16*144 {
		t.Errorf("%d samples of ten minutes; want those of 14 to 16 days", n)
	}
	last := start.Add((days*24*60 - 1) * time.Minute)
	if !h.Minutes[len(h.Minutes)-1].Time.Equal(last) || !h.Tens[len(h.Tens)-1].Time.Equal(last) {
		t.Error("the last minute is missing")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != minutes.segments+tens.segments {
		t.Errorf("%d files, %v", len(entries), err)
	}
	size := int64(0)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 4<<20 {
		t.Errorf("%d bytes", size)
	}
}

// TestRingMembersAreBounded: whatever the number of pods, the disk that the ring takes is bounded.
func TestRingMembersAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	long := strings.Repeat("n", 253)
	for n := range 17 * 144 * 10 {
		if n%10 > 1 {
			continue // two minutes of ten are enough
		}
		s := minute(n, 100)
		for i := range 110 {
			s.Members = append(s.Members, Member{UID: strings.Repeat("u", 36), Namespace: long[:63], Name: long, Containers: "0123456789abcdef", QoS: "Burstable", Priority: 2000000000, RequestBytes: 1 << 40, WorkingSetBytes: 1 << 40, UsedBytes: uint64(i) << 20})
		}
		if err := r.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if most := int64(minutes.segments*minutes.bytes + tens.segments*tens.bytes); size > most {
		t.Errorf("%d bytes; want at most %d", size, most)
	}
	members := read(t, dir).Tens[0].Members
	if len(members) != MaxMembers || members[0].UsedBytes != 109<<20 {
		t.Errorf("%d members, the first has %d bytes; want the 32 largest", len(members), members[0].UsedBytes)
	}
}

// TestRingClockBack: a clock that is set back by an hour, and one that was in 1970 after a boot,
// lose no sample. All are read in the order of their times.
func TestRingClockBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	add(t, r, 600, 660, 100)
	add(t, r, 600, 620, 300)
	s := minute(0, 50)
	s.Time = time.Unix(60, 0).UTC()
	if err := r.Add(s); err != nil {
		t.Fatal(err)
	}
	add(t, r, 700, 710, 100)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	h := read(t, dir)
	if len(h.Minutes) != 91 || h.Minutes[0].Time.Year() != 1970 {
		t.Fatalf("%d minutes from %s", len(h.Minutes), h.Minutes[0].Time)
	}
	peak := uint64(0)
	seconds := uint32(0)
	for _, s := range h.Coarse() {
		peak = max(peak, s.Partition.UsedPeakBytes)
		seconds += s.Seconds
	}
	if peak != 300<<20 || seconds != 91*60 {
		t.Errorf("peak %d, %d s", peak, seconds)
	}
	if got := h.Between(start.Add(700*time.Minute), start.Add(705*time.Minute)); len(got) != 5 {
		t.Errorf("%d samples", len(got))
	}
}

// TestRingDiskFull: what cannot be written is written later, once. Not parallel: the limit of file
// sizes holds for the process.
func TestRingDiskFull(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	add(t, r, 0, 10, 100)
	info, err := os.Stat(filepath.Join(dir, "minutes-000001.log"))
	if err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	full := before
	full.Cur = uint64(info.Size()) + 100 // a part of the next line fits
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for n := 10; n < 100; n++ {
		if r.Add(minute(n, 100)) != nil {
			failed++
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if failed == 0 {
		t.Fatal("no error: this test does not fill the disk")
	}
	if len(r.minutes.pending) > maxPending*1024 {
		t.Errorf("%d bytes in memory", len(r.minutes.pending))
	}
	add(t, r, 100, 101, 100)
	h := read(t, dir)
	// Of 91 minutes the last hour is kept.
	if len(h.Minutes) != 70 || h.Broken != 0 || !h.Minutes[69].Time.Equal(start.Add(100*time.Minute)) || !h.Minutes[10].Time.Equal(start.Add(41*time.Minute)) {
		t.Errorf("%d minutes, %d broken", len(h.Minutes), h.Broken)
	}
}

// TestReadWhileWriting: two readers see whole samples only, in whatever state the writer is.
func TestReadWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, dir)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				h, err := Read(t.Context(), dir)
				if err != nil || h.Broken != 0 {
					t.Errorf("%d broken, %v", h.Broken, err)
					return
				}
				for _, s := range h.Minutes {
					if s.Seconds != 60 || s.Partition.UsedPeakBytes != 100<<20 {
						t.Errorf("%+v", s)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := range 10 * minutes.lines {
		if err := r.Add(minute(n, 100)); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	readers.Wait()
}

// TestRingFolderRemoved: an operator who removes the history gets a new one.
func TestRingFolderRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "history")
	r := open(t, dir)
	add(t, r, 0, 10, 100)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	add(t, r, 10, 20, 100)
	if h := read(t, dir); len(h.Minutes) != 10 {
		t.Errorf("%d minutes", len(h.Minutes))
	}
}

// TestBytesPerDay bounds what a day costs the disk: performance.md has the figures.
func TestBytesPerDay(t *testing.T) {
	t.Parallel()
	line, err := appendLine(nil, minute(0, 100))
	if err != nil {
		t.Fatal(err)
	}
	if day := len(line)*24*60 + len(line)*24*6; day > 1<<20 {
		t.Errorf("%d bytes a line, %d a day; want at most 1Mi", len(line), day)
	}
	if !bytes.HasSuffix(line, []byte("}\n")) {
		t.Errorf("%s", line)
	}
}

// BenchmarkAdd measures a sample of the monitor, the writing of each fifth included: with one
// partition, with four, and with as many partitions and pods as there can be.
func BenchmarkAdd(b *testing.B) {
	four := func(n int) Sample {
		s := full(n)
		s.Others = s.Others[:3]
		return s.withoutMembers()
	}
	for name, sample := range map[string]func(int) Sample{
		"partitions=1":       func(n int) Sample { return minute(n, 100) },
		"partitions=4":       four,
		"partitions=17/pods": full,
	} {
		b.Run(name, func(b *testing.B) {
			r, err := Open(b.TempDir(), func(error) {})
			if err != nil {
				b.Fatal(err)
			}
			s := sample(0)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				s.Time = start.Add(time.Duration(n) * time.Minute)
				if err := r.Add(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
