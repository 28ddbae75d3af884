package sizefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing"
)

const mebi = 1 << 20

var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// monitor is a monitor that records, with a clock of its own.
type monitor struct {
	t    *testing.T
	root host.Root
	now  time.Time
	file Record
}

func start(t *testing.T) *monitor {
	t.Helper()
	m := &monitor{t: t, root: host.Root(t.TempDir()), now: begin}
	if err := m.open(); err != nil {
		t.Fatal(err)
	}
	return m
}

// open is the start of a monitor.
func (m *monitor) open() error {
	m.t.Helper()
	var err error
	m.file, err = Open(m.root, partition.System)
	return err
}

// runs adds minutes in which so many mebibytes are used.
func (m *monitor) runs(minutes int, used uint64) {
	m.t.Helper()
	for range minutes {
		m.now = m.now.Add(time.Minute)
		m.file.Add(m.now, time.Minute, Minute{
			Used: used * mebi, Members: 3, RequestBytes: 10 * mebi,
			Usage: map[string]uint64{"kube-system/dns": used * mebi / 2, "kube-system/proxy": used * mebi / 4},
		})
	}
}

// write is the stop of a monitor.
func (m *monitor) write() {
	m.t.Helper()
	if err := m.file.Write(m.root); err != nil {
		m.t.Fatal(err)
	}
}

// read returns what is on the disk, and its advice.
func (m *monitor) read() (Record, sizing.Advice) {
	m.t.Helper()
	r, _, err := Read(m.root, partition.System)
	if err != nil {
		m.t.Fatal(err)
	}
	return r, r.Advise(func(uint64) uint64 { return 32 * mebi })
}

// TestMonth: a speeded clock for thirty-one days. The file has the last day and the last thirty
// days, in at most 64 KiB also where a partition uses terabytes.
func TestMonth(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.runs(day, 700_000)
	m.write()
	r, a := m.read()
	if len(r.Minutes) != day || len(r.Hours) != 24 || r.Passed != 60 || r.Missing() != 0 || a.Length() != 24*time.Hour || a.Members != 3 {
		t.Errorf("after a day: %d minutes, %d hours, %s missing, %+v", len(r.Minutes), len(r.Hours), r.Missing(), a)
	}
	for i := range 100 { // names of the greatest length, which is 63 and 253
		m.file.note(fmt.Sprintf("%063d/%0253d", i, i), 1<<40+uint64(i))
	}
	m.runs(30*day, 1_600_000)
	m.write()
	info, err := os.Stat(filepath.Join(string(m.root), Dir, "system.json"))
	if err != nil || info.Size() > MaxBytes || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	r, a = m.read()
	if len(r.Hours) != month || a.Length() != 30*24*time.Hour || a.Need.Peak != 1_600_000*mebi || len(r.Members) != maxMembers {
		t.Errorf("after a month: %d hours, %d members, %+v", len(r.Hours), len(r.Members), a)
	}
	t.Logf("a full file of %d members in a partition of 1.5 TiB has %d bytes", len(r.Members), info.Size())
}

// TestRestart: a monitor that is started again goes on, also within a minute. A reboot leaves a
// gap, which the record knows.
func TestRestart(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.runs(90, 100)
	for range 10 { // a restart loop
		m.write()
		_ = m.open()
		m.now = m.now.Add(2 * time.Second)
		m.file.Add(m.now, 2*time.Second, Minute{Used: 120 * mebi, Members: 3})
	}
	m.write()
	r, a := m.read()
	if len(r.Minutes) != 90 || a.Length() != 90*time.Minute || a.Need.Peak != 120*mebi {
		t.Errorf("a restart loop of 20 seconds makes %d minutes of 90, %+v", len(r.Minutes), a)
	}
	m.now = m.now.Add(3*time.Hour + 10*time.Second)
	_ = m.open()
	m.runs(30, 100)
	m.write()
	r, a = m.read()
	if a.Length() != 2*time.Hour || r.Missing() < 2*time.Hour+58*time.Minute || r.Missing() > 3*time.Hour+time.Minute || r.Largest() != "kube-system/dns" {
		t.Errorf("after a reboot of three hours: %s measured, %s missing", a.Length(), r.Missing())
	}
	m.now = m.now.Add(40 * 24 * time.Hour)
	_ = m.open()
	m.runs(30, 100)
	m.write()
	if r, a = m.read(); a.Length() != 30*time.Minute || !strings.Contains(r.Lacks, "older than thirty days") {
		t.Errorf("after 40 days: %s, %q", a.Length(), r.Lacks)
	}
}

// TestClock: a clock that is set back or forward, in a run or while the node is off, costs no
// minute and doubles none. Nothing is in the future.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"back": -5 * 365 * 24 * time.Hour, "forward": 5 * 365 * 24 * time.Hour, "an hour back": -time.Hour} {
		m := start(t)
		m.runs(120, 100)
		m.now = m.now.Add(by)
		m.runs(120, 100)
		m.write()
		r, a := m.read()
		if a.Length() != 4*time.Hour || r.Missing() != 0 || !r.To.Equal(m.now) || len(r.Minutes) != 240 {
			t.Errorf("%s: %s measured, %s missing, until %s; it is %s", name, a.Length(), r.Missing(), r.To, m.now)
		}
	}
	m := start(t) // a node without a clock of its own boots in 1970, and gets the time later
	m.runs(120, 100)
	m.write()
	m.now = time.Unix(60, 0)
	_ = m.open()
	m.runs(10, 100)
	m.now = begin.Add(3 * time.Hour)
	m.runs(10, 100)
	m.write()
	r, a := m.read()
	if a.Length() != 140*time.Minute || r.To.After(m.now) || r.Missing() > time.Minute {
		t.Errorf("a boot in 1970: %s measured, %s missing, until %s; it is %s", a.Length(), r.Missing(), r.To, m.now)
	}
}

// TestForeign: a file that is cut off, of another version or of another partition is not continued,
// and the record says so. Its writer goes on.
func TestForeign(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.runs(90, 100)
	m.write()
	name := filepath.Join(string(m.root), Dir, "system.json")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(whole)
	for what, data := range map[string]string{
		"cut off":           text[:len(text)/2],
		"empty":             "",
		"another version":   strings.Replace(text, `"version":1`, `"version":2`, 1),
		"another partition": strings.Replace(text, `"partition":"system"`, `"partition":"batch"`, 1),
		"another program's": `{"version":1}`,
		"too many minutes":  strings.Replace(text, `"minutes":[`, `"minutes":[`+strings.Repeat("1,", day), 1),
		"too large":         text + strings.Repeat(" ", MaxBytes),
		"no hours":          strings.Replace(text, `"hours":[[`, `"hours":[],"others":[[`, 1),
	} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Read(m.root, partition.System); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
		if err := m.open(); err == nil {
			t.Errorf("%s: no error", what)
		}
		m.runs(5, 100)
		m.write()
		if r, a := m.read(); a.Length() != 5*time.Minute || !strings.Contains(r.Lacks, "is not readable") {
			t.Errorf("%s: %s measured, lacks %q", what, a.Length(), r.Lacks)
		}
	}
	after := m.file
	if after.pass(); after.Lacks == "" {
		t.Error("after some minutes nothing is lacking")
	}
	for range month * 60 {
		after.pass()
	}
	if after.Lacks != "" {
		t.Errorf("after thirty days: lacks %q", after.Lacks)
	}
	// A writer that was killed half-way leaves the old file.
	if err := os.WriteFile(filepath.Join(string(m.root), Dir, ".system.json.new"), whole[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.open(); err != nil || len(m.file.Minutes) != 5 {
		t.Errorf("%v, %d minutes", err, len(m.file.Minutes))
	}
}

// TestVar: while /var cannot be written the record is in /run, and continues the one of /var. A
// /var that is mounted late gets both.
func TestVar(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.runs(120, 100)
	m.write()
	dir := filepath.Join(string(m.root), "/var/lib/node-partition")
	away := dir + ".away"
	instead := func(from, to string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(to), os.Rename(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	instead(dir, away)
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a folder cannot be made here
		t.Fatal(err)
	}
	m.now = m.now.Add(2 * time.Hour) // the node was off
	for range 2 {                    // the second one continues the file in /run
		if err := m.open(); err != nil {
			t.Fatal(err)
		}
		m.runs(30, 90)
		m.write()
	}
	if _, inRun, err := Read(m.root, partition.System); !inRun || err != nil {
		t.Fatalf("in /run: %t, %v", inRun, err)
	}
	if _, a := m.read(); a.Length() != time.Hour {
		t.Errorf("without /var: %s", a.Length())
	}
	instead(away, dir)
	m.runs(10, 90)
	volatile := filepath.Join(string(m.root), Volatile, "system.json")
	left, err := os.ReadFile(volatile)
	if err != nil {
		t.Fatal(err)
	}
	m.write()
	if err := os.WriteFile(volatile, left, 0o600); err != nil { // it was killed before it has removed it
		t.Fatal(err)
	}
	if err := m.open(); err != nil {
		t.Fatal(err)
	}
	m.runs(10, 90)
	m.write()
	r, inRun, err := Read(m.root, partition.System)
	if _, a := m.read(); inRun || err != nil || a.Length() != 3*time.Hour+20*time.Minute || a.Need.Peak != 100*mebi || len(r.Minutes) != 320 || r.Missing() != 2*time.Hour {
		t.Errorf("with /var: in /run %t, %v, %s, %d minutes, %s missing", inRun, err, a.Length(), len(r.Minutes), r.Missing())
	}
	// It is there at the next start, and read-only from then on.
	if err := m.open(); err != nil {
		t.Fatal(err)
	}
	instead(filepath.Join(dir, "sizes"), away)
	if err := os.WriteFile(filepath.Join(dir, "sizes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.runs(10, 90)
	m.write()
	if _, a := m.read(); a.Length() != 3*time.Hour+30*time.Minute {
		t.Errorf("read-only since the start: %s", a.Length())
	}
}

// TestLeak: the member that grows is named. One that restarts is not taken for a leak of the
// others.
func TestLeak(t *testing.T) {
	t.Parallel()
	m := start(t)
	for i := range uint64(24 * 60) {
		m.now = m.now.Add(time.Minute)
		leak := (40 + i/10) * mebi
		m.file.Add(m.now, time.Minute, Minute{Used: 200*mebi + leak, Members: 2, Usage: map[string]uint64{
			"kube-system/steady": (200 - i%2) * mebi, "kube-system/leaks": leak,
		}})
	}
	m.write()
	_, a := m.read()
	if a.Leak == nil || a.Leak.Member != "kube-system/leaks" || a.LimitBytes < a.NeedBytes+32*mebi {
		t.Errorf("%+v", a.Leak)
	}
}

// BenchmarkAdd measures a minute of a partition with 40 members.
func BenchmarkAdd(b *testing.B) {
	f := Record{Version: version}
	minute := Minute{Used: 4 << 30, Members: 40, Usage: map[string]uint64{}}
	for i := range 40 {
		minute.Usage[fmt.Sprint("kube-system/member-", i)] = uint64(i) << 20
	}
	at := begin
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(time.Minute)
		f.Add(at, time.Minute, minute)
	}
}

// BenchmarkWrite measures the writing of a full file.
func BenchmarkWrite(b *testing.B) {
	root, f := host.Root(b.TempDir()), Record{Version: version, Partition: partition.System}
	at := begin
	for i := range 40 {
		f.note(fmt.Sprint("kube-system/member-", i), 100<<20)
	}
	for range 31 * day {
		at = at.Add(time.Minute)
		f.Add(at, time.Minute, Minute{Used: 4 << 30, Members: 40})
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Write(root); err != nil {
			b.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(string(root), Dir, "system.json"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size()), "bytes-on-disk")
}

// TestRecordsTheClockThatIsSet: a time of the process has the reading of a clock that nobody sets,
// too. With it a step of the clock would not be seen, and the whole record lost at the next start.
func TestRecordsTheClockThatIsSet(t *testing.T) {
	t.Parallel()
	var r Record
	r.Add(time.Now(), time.Minute, Minute{Used: mebi})
	if r.To != r.To.Round(0) || r.seen != r.seen.Round(0) {
		t.Errorf("%v, %v", r.To, r.seen)
	}
}

// TestBegin: the figures begin thirty days ago at most, by the clock of now, whenever the record
// began.
func TestBegin(t *testing.T) {
	t.Parallel()
	to := time.Date(2026, 11, 30, 12, 10, 0, 0, time.UTC)
	r := Record{Began: to.Add(2 * time.Hour), To: to, Hours: make([]Hour, month), Passed: 10}
	if got, want := r.Begin(), to.Add(-10*time.Minute).AddDate(0, 0, -30).Add(time.Hour); !got.Equal(want) {
		t.Errorf("%s; want %s", got, want)
	}
}
