package evict

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// tell tells the API server of an eviction, in the background and more than once if need be. How it ended, progress hears.
func (m *Manager) tell(ctx context.Context, e Eviction) {
	if e.Told {
		return
	}
	m.watching.Go(func() {
		err := errLate
		if time.Since(e.Time) <= apiLatest {
			err = m.tellUntil(ctx, e, m.API.Evict)
			if err != nil && !errors.Is(err, ErrFinal) {
				err = fmt.Errorf("%w: %w", errLate, err)
			}
		}
		evicted := err == nil
		if evicted {
			// Until the kubelet has seen a container end, it may write the pod's status as it was before (syncBatch of
			// pkg/kubelet/status/status_manager.go): it looks at containers each second (PLEG).
			select {
			case <-ctx.Done():
			case <-time.After(confirmAfter):
				if err = m.tellUntil(ctx, e, m.API.Confirm); err != nil {
					err = fmt.Errorf("%w: %w", errUnconfirmed, err)
				}
			}
		}
		if ctx.Err() != nil {
			return // the next start tells
		}
		if err != nil {
			m.failed(e, StepAPI, err)
		}
		m.mu.Lock()
		m.told = append(m.told, told{e.UID, e.Time, err, evicted})
		m.mu.Unlock()
		m.wake()
	})
}

// errLate says that it is too late to tell: the containers run again.
var errLate = errors.New("the API server was not told in time, the kubelet starts the containers again")

// errUnconfirmed says that the pod was evicted, and that this could not be made sure of.
var errUnconfirmed = errors.New("the API server was told, and not a second time: if the kubelet has overwritten it, it starts the containers again")

const (
	// apiAttempt is how long one attempt may take: a connection that is half open answers nothing. The first one has a TLS handshake,
	// which took 3.9 s on an emulated node.
	apiAttempt = 5 * time.Second
	// apiLatest is how old an eviction may be that a new run of the program tells the API server of: it may have been told already.
	apiLatest = time.Minute
	// confirmAfter is two of the kubelet's looks.
	confirmAfter = 2 * time.Second
)

// tellUntil tries for apiTimeout, and once at least.
func (m *Manager) tellUntil(ctx context.Context, e Eviction, call func(context.Context, Eviction) error) error {
	deadline := time.NewTimer(apiTimeout)
	defer deadline.Stop()
	delay := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 1 << 30, Cap: 2 * time.Second}.DelayFunc()
	for {
		attempt, cancel := context.WithTimeout(ctx, apiAttempt)
		err := call(attempt, e)
		cancel()
		if err == nil || errors.Is(err, ErrFinal) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return err
		case <-time.After(delay()):
		}
	}
}
