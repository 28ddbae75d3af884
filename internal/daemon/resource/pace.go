package resource

import (
	"time"

	"nodepartition/internal/kubeapi"
)

const (
	// firstPause is the pause after a second write in a row. It doubles up to maxFight while writes
	// succeed and others overwrite them, because members may fail while the value is wrong.
	firstPause = time.Second
	maxFight   = 10 * time.Second
	// calm is the time without a write after which the next failure is a new one.
	calm = 10 * time.Minute
)

// pace spaces out the writes. The first one waits for nothing.
type pace struct {
	last, next time.Time
	pause      time.Duration // while writes succeed
	retry      kubeapi.Retry // while they fail
}

// wrote notes an attempt to write.
func (p *pace) wrote(err error, now time.Time) {
	if now.Sub(p.last) >= calm {
		p.pause = 0
	}
	p.last = now
	if err != nil {
		p.next = now.Add(p.retry.After(err))
		return
	}
	p.retry, p.next = kubeapi.Retry{}, now.Add(p.pause)
	p.pause = min(max(firstPause, 2*p.pause), maxFight)
}

// wait returns how long the next write has to wait.
func (p *pace) wait(now time.Time) time.Duration { return max(0, p.next.Sub(now)) }
