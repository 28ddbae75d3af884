package resource

import "time"

const (
	// firstPause is the pause after a failure, and after a second write in a row. It doubles: up to
	// maxFight while writes succeed and others overwrite them, because members may fail while the
	// value is wrong, and up to maxRetry while writes fail.
	firstPause = time.Second
	maxFight   = 10 * time.Second
	maxRetry   = 5 * time.Minute
	// calm is the time without a write after which the next failure is a new one.
	calm = 10 * time.Minute
)

// pace spaces out the writes. The first one waits for nothing.
type pace struct {
	last, next time.Time
	pause      time.Duration
}

// wrote notes an attempt to write.
func (p *pace) wrote(ok bool, now time.Time) {
	longest := maxRetry
	if now.Sub(p.last) >= calm {
		p.pause = 0
	}
	if ok {
		longest = maxFight
	} else {
		p.pause = max(p.pause, firstPause)
	}
	p.last, p.next = now, now.Add(p.pause)
	p.pause = min(max(firstPause, 2*p.pause), longest)
}

// wait returns how long the next write has to wait.
func (p *pace) wait(now time.Time) time.Duration { return max(0, p.next.Sub(now)) }
