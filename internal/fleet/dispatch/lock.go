package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"nodepartition/internal/fleet"
	"nodepartition/internal/fleet/cluster"
)

const (
	// renewEvery is the time between two writes of the lock.
	renewEvery = 15 * time.Second
	// writeFor is the time after the last write of the lock for which another write may begin: it
	// ends before any other process may take the lock.
	writeFor = fleet.LeaseFor - cluster.RequestTimeout - 5*time.Second
	// renewAgain is the longest time between two attempts to write the lock. With the time before
	// it, and an outage of half a minute, the holder is silent for less than fleet.LeaseFor.
	renewAgain = 5 * time.Second
	// lookEvery is the time between two looks at a lock that another process holds.
	lookEvery = 10 * time.Second
)

// errLost means that another process has taken the lock, or that somebody has removed it.
var errLost = errors.New("the lock is lost")

// lock is a lock that this process has taken.
type lock struct {
	d         *dispatcher
	continues bool // the last holder was interrupted

	mu      sync.Mutex
	lease   *fleet.Lock
	until   time.Time     // for writes
	changed chan struct{} // closed when the two change
}

// acquire takes the lock. It returns no lock and a report if the roll may not have it.
func (d *dispatcher) acquire(ctx context.Context) (*lock, *Report, error) {
	var retry backoff
	var version, said string
	var since time.Time // when this process saw the version first
	renewed, continues := false, false
	for first := true; ; {
		var l *fleet.Lock
		if err := d.until(ctx, func() (err error) {
			l, err = d.Client.Lock(ctx)
			return err
		}); err != nil {
			return nil, nil, err
		}
		now, seen := time.Now(), versionOf(l)
		//guard: the lock is taken only when it was seen unchanged
		if first || seen != version {
			renewed = !first
			version, since, first = seen, now, false
		}
		verdict, why := d.Claim.Judge(l, now.Sub(since), renewed)
		//guard: a Lease that this process wrote without an answer is its own
		if l != nil && l.Holder == d.Holder {
			verdict = fleet.Take // the answer to this process's own write was lost
		} else {
			continues = d.Claim.Continues(l)
		}
		switch verdict {
		case fleet.Yield:
			return nil, &Report{Code: fleet.CodeDone, Lines: []string{"nothing to do: " + why}}, nil
		case fleet.Refuse:
			return nil, d.refused("Lease " + cluster.LeaseName + ": " + why), nil
		case fleet.Take:
			lease, err := d.Client.WriteLock(ctx, d.Claim.Taken(l, d.Holder))
			if err == nil {
				return &lock{
					d: d, continues: continues, lease: lease, until: now.Add(writeFor), changed: make(chan struct{}),
				}, nil, nil
			}
			if err := d.transient(err); err != nil {
				return nil, nil, err
			}
			if err := retry.wait(ctx); err != nil {
				return nil, nil, err
			}
			continue
		case fleet.Ask:
			asked, err := d.Client.WriteLock(ctx, d.Claim.Asked(l))
			if err == nil {
				// It was still the version that this process had seen: its holder has been silent
				// all the time.
				version = versionOf(asked)
			} else if err := d.transient(err); err != nil {
				return nil, nil, err
			}
		}
		if why != said {
			said = why
			d.Say("waits for the lock: " + why)
		}
		if err := pause(ctx, lookEvery); err != nil {
			return nil, nil, err
		}
	}
}

func versionOf(l *fleet.Lock) string {
	if l == nil {
		return ""
	}
	return l.UID + " " + l.Version
}

// transient returns nil for an error after which the lock is to be looked at again: another process
// was faster, or the API server is away.
func (d *dispatcher) transient(err error) error {
	switch {
	case errors.Is(err, cluster.ErrChanged), errors.Is(err, cluster.ErrGone):
		return nil
	case errors.Is(err, cluster.ErrAway):
		d.away.began(err)
		return nil
	}
	return err
}

// keep renews the lock until ctx ends. It returns errLost if another process has it.
func (l *lock) keep(ctx context.Context) error {
	retry := backoff{most: renewAgain}
	for {
		if err := pause(ctx, renewEvery); err != nil {
			return err
		}
		for {
			err := l.write(ctx, func(lease *fleet.Lock) *fleet.Lock { return lease })
			if err == nil {
				break
			}
			if !errors.Is(err, cluster.ErrAway) {
				return err
			}
			l.d.away.began(err)
			if err := retry.wait(ctx); err != nil {
				return err
			}
		}
		retry.reset()
		l.d.away.ended()
	}
}

// write writes the lock after a change, if this process still has it. Whoever waits for the lock
// may have changed the Lease meanwhile: then it is read, and written once more.
func (l *lock) write(ctx context.Context, change func(*fleet.Lock) *fleet.Lock) error {
	for {
		sent, lease := time.Now(), l.get()
		written, err := l.d.Client.WriteLock(ctx, change(lease))
		if err == nil {
			l.set(written, sent.Add(writeFor))
			return nil
		}
		if !errors.Is(err, cluster.ErrChanged) && !errors.Is(err, cluster.ErrGone) {
			return err
		}
		now, err := l.d.Client.Lock(ctx)
		if err != nil {
			return err
		}
		//guard: a lock that another process has is lost
		if now == nil || now.Holder != l.d.Holder {
			return errLost
		}
		l.set(now, l.deadline())
	}
}

func (l *lock) get() *fleet.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

func (l *lock) deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

func (l *lock) set(lease *fleet.Lock, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease, l.until = lease, until
	close(l.changed)
	l.changed = make(chan struct{})
}

// change returns a channel that is closed at the next change of the lock.
func (l *lock) change() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// hold waits until this process may write: after an outage of the API server it has to renew the
// lock first.
func (l *lock) hold(ctx context.Context) error {
	for {
		changed := l.change()
		if time.Now().Before(l.deadline()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// releaseWithin bounds the release by a process that was told to end.
const releaseWithin = 5 * time.Second

// release gives the lock up, after keep has ended. If another process has it, that is left as it
// is.
func (l *lock) release(ctx context.Context, end fleet.Ended) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
		defer cancel()
	}
	err := l.d.until(ctx, func() error {
		if l.d.Claim.Action == fleet.Uninstall && end == fleet.Over {
			return l.remove(ctx)
		}
		return l.write(ctx, func(lease *fleet.Lock) *fleet.Lock { return l.d.Claim.Released(lease, end) })
	})
	if errors.Is(err, errLost) {
		return nil
	}
	return err
}

func (l *lock) remove(ctx context.Context) error {
	for {
		lease, err := l.d.Client.Lock(ctx)
		if err != nil || lease == nil {
			return err
		}
		if lease.Holder != l.d.Holder {
			return errLost
		}
		if err = l.d.Client.RemoveLock(ctx, lease); !errors.Is(err, cluster.ErrChanged) && !errors.Is(err, cluster.ErrGone) {
			return err
		}
	}
}
