package main

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/tests/lab"
)

// told collects lines.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (t *told) tell(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

func TestRunReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out told
		now := time.Now()
		r := newRun(out.tell, now.Add(-40*time.Second), now, []planned{
			{name: "building", reference: time.Minute},
			{name: "booting", reference: 3 * time.Minute, after: []string{"building"}},
		})
		stop := r.report(t.Context())
		built := r.step("building")
		<-time.After(50 * time.Second)
		built()
		<-time.After(20 * time.Second)
		r.progress("booting ...")
		r.progress("trying KVM ...")
		<-time.After(5 * time.Second)
		r.progress("trying KVM: 5.0 s")
		<-time.After(20 * time.Second)
		stop()
		<-time.After(time.Hour)
		want := []string{
			"building ...",
			"still building (30s): about 4 minutes left",
			"building: 50.0 s",
			// Nothing runs after 60 s.
			"booting ...",
			"trying KVM ...",
			"trying KVM: 5.0 s",
			"still booting (20s): about 3 minutes left",
		}
		if !slices.Equal(out.lines, want) {
			t.Errorf("%q, want %q", out.lines, want)
		}
	})
}

func TestRunReportsNoTimeWithoutReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out told
		r := newRun(out.tell, time.Now(), time.Now(), []planned{{name: "building"}})
		stop := r.report(t.Context())
		r.progress("building ...")
		<-time.After(reportInterval + time.Second)
		stop()
		if line := out.lines[len(out.lines)-1]; line != "still building (30s)" {
			t.Errorf("%q", out.lines)
		}
		var text bytes.Buffer
		r.announce(&text, []lab.Step{{Name: "building"}})
		if want := "This is a first run. It makes, once:\n  building\n"; text.String() != want {
			t.Errorf("%q, want %q", text.String(), want)
		}
	})
}

func TestAnnounce(t *testing.T) {
	now := time.Now()
	r := newRun(nil, now, now, []planned{
		{name: "building", reference: 4 * time.Minute},
		{name: "showing", reference: time.Minute, after: []string{"building"}},
	})
	var text bytes.Buffer
	r.announce(&text, []lab.Step{{Name: "building"}})
	if want := "With the demo this takes about 5 minutes on two cores."; !strings.Contains(text.String(), want) {
		t.Errorf("%q, want %q", text.String(), want)
	}
}

func TestWriteTimes(t *testing.T) {
	now := time.Now()
	began := now.Add(-40 * time.Second)
	r := newRun(nil, began, now, nil)
	r.note("unpacking qemu", false, now)
	r.note("building kubelet-1.37 v1.37.0", false, now.Add(time.Second))
	r.note("unpacking qemu", true, now.Add(30*time.Second))
	r.note("building kubelet-1.37 v1.37.0", true, now.Add(201*time.Second))
	r.note("showing the partition", false, now.Add(300*time.Second))
	var text bytes.Buffer
	if err := r.writeTimes(&text, now.Add(310*time.Second)); err != nil {
		t.Fatal(err)
	}
	const want = `
== Where the time of this first run went. Some steps ran side by side
STEP                           BEGAN AFTER  TOOK
building the lab's command     0 s          40 s
unpacking qemu                 40 s         30 s
building kubelet-1.37 v1.37.0  41 s         200 s
all                                         350 s
`
	if text.String() != want {
		t.Errorf("%s\nwant %s", text.String(), want)
	}
}

func TestBeganAt(t *testing.T) {
	now := time.Unix(1000, 0)
	for text, want := range map[string]int64{"960": 960, "": 1000, "soon": 1000, "2000": 1000} {
		if got := beganAt(text, now); got.Unix() != want {
			t.Errorf("%q: %d, want %d", text, got.Unix(), want)
		}
	}
}
