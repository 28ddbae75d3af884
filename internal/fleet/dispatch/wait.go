package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"nodepartition/internal/fleet"
)

// The waits between two attempts double from the first to the longest.
const (
	firstWait   = time.Second
	longestWait = 30 * time.Second
)

// backoff is the wait after an attempt that has failed.
type backoff struct {
	next time.Duration
	most time.Duration // longestWait if it is zero
}

// wait waits, a random part less, so that the dispatchers of many clusters, and the watches of one,
// do not come back at once.
func (b *backoff) wait(ctx context.Context) error {
	most := b.most
	if most == 0 {
		most = longestWait
	}
	b.next = min(max(2*b.next, firstWait), most)
	return pause(ctx, b.next-rand.N(b.next/2))
}

func (b *backoff) reset() { b.next = 0 }

// pause waits, or returns the cause of the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sayAgain is the time between two messages about an outage that lasts.
const sayAgain = time.Minute

// outage says that the API server is away, and that it is back: once for all who notice.
type outage struct {
	say func(string)

	mu          sync.Mutex
	since, said time.Time
}

func (o *outage) began(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	since := ""
	switch {
	case o.since.IsZero():
		o.since = now
	case now.Sub(o.said) < sayAgain:
		return
	default:
		since = fmt.Sprintf(", which has been away for %s", now.Sub(o.since).Round(time.Second))
	}
	o.said = now
	o.say(fmt.Sprintf("waits for the API server%s, and tries again until it answers; Jobs that run go on: %v", since, err))
}

func (o *outage) ended() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		o.say(fmt.Sprintf("the API server answers again after %s", time.Since(o.since).Round(time.Second)))
		o.since = time.Time{}
	}
}

// inbox holds changes until the roll takes them.
type inbox struct {
	mu      sync.Mutex
	changes []fleet.Change
	ready   chan struct{} // has a value if there are changes
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (in *inbox) add(c fleet.Change) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.changes = append(in.changes, c)
	select {
	case in.ready <- struct{}{}:
	default:
	}
}

func (in *inbox) take() []fleet.Change {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := in.changes
	in.changes = nil
	return all
}
