//go:build fleet

package fleet

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/rules"
)

// spent is the time that something took: by the clock, and of processors.
type spent struct{ clock, processor time.Duration }

// String returns both times.
func (s spent) String() string {
	const digits = time.Millisecond
	return fmt.Sprintf("%s by the clock, %s of a processor", s.clock.Round(digits), s.processor.Round(digits))
}

// starved reports whether other processes had the processor for more than a tenth of the time. The
// time by the clock then says how busy the machine was, and not what this process needs.
func (s spent) starved() bool { return s.processor < s.clock*9/10 }

// begun is the beginning of a measurement.
type begun struct {
	at   time.Time
	used time.Duration
}

func begins(t *testing.T) begun {
	t.Helper()
	return begun{time.Now(), processor(t)}
}

// until returns what was spent since then.
func (b begun) until(t *testing.T) spent {
	t.Helper()
	return spent{time.Since(b.at), processor(t) - b.used}
}

// processor returns the time of processors that this process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// cost holds the time of the evaluations of a group of rules.
type cost struct {
	// longest took most time by the clock, and fair of the evaluations that were not starved.
	longest, fair spent
	// most is the most time of processors that one needed.
	most time.Duration
	// evaluations counts all of them, and starved the starved ones.
	evaluations, starved int
}

func (c *cost) add(s spent) {
	c.evaluations++
	c.most = max(c.most, s.processor)
	if s.clock > c.longest.clock {
		c.longest = s
	}
	switch {
	case s.starved():
		c.starved++
	case s.clock > c.fair.clock:
		c.fair = s
	}
}

// compare compares the evaluations of a group with its interval: Prometheus leaves some out if they
// take longer. One that was starved proves nothing by taking longer, and the log names it.
func (c *cost) compare(t *testing.T, g *rules.Group) {
	t.Helper()
	name, every := nameOf(g), g.Interval()
	t.Logf("%s: at most %s, every %s", name, c.longest, every)
	if c.starved > 0 {
		t.Logf("%s: STARVED OF CPU in %d of %d evaluations: others used the machine", name, c.starved, c.evaluations)
	}
	if c.fair.clock >= every {
		t.Errorf("%s: an evaluation that was not starved took %s, every %s", name, c.fair, every)
	}
	if c.longest.clock >= every && c.longest.starved() {
		t.Logf("%s: NOT COMPARED with the interval: the longest evaluation, which was starved", name)
	}
}
