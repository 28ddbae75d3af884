package evict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// tell tells the API server of an eviction, in the background and more than once if need be. How it ended, progress hears.
func (m *Manager) tell(ctx context.Context, open *Eviction) {
	if open.Told || open.telling {
		return
	}
	open.telling = true
	e := *open
	m.watching.Go(func() {
		err := errLate
		if !e.late {
			err = m.tellUntil(ctx, e, m.API.Evict)
			if err != nil && !errors.Is(err, ErrFinal) {
				err = fmt.Errorf("%w: %w", errLate, err)
			}
		}
		evicted := err == nil
		if evicted {
			if err = m.confirm(ctx, e); err != nil {
				err = fmt.Errorf("%w: %w", errUnconfirmed, err)
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

// confirm sees to it that the kubelet follows. The kubelet looks at a pod anew when one of its containers ends (PLEG), each second, or else once
// in a minute or two; until then it writes the pod's status as it was over what the API server was told (syncBatch,
// pkg/kubelet/status/status_manager.go). A container that it has started between the kill and the word of the API server runs on then, in a
// pod that is Running again: seen with 1.37.0 where the monitor was killed in between, and where the runtime told the kubelet of the end 14 s late. So what
// runs of the pod is ended once more, until the kubelet has said itself that the pod has ended.
func (m *Manager) confirm(ctx context.Context, e Eviction) error {
	begin := time.Now()
	for rounds := 0; rounds < confirmAttempts; {
		// A container that has been given time has it, and what does not end after that progress sees to; one that was started in its place has none.
		ended, err := m.ended(e)
		if graceful := e.Grace > 0 && !ended && err == nil && time.Since(begin) < e.Grace+2*endTimeout; !graceful {
			m.killAll(e, m.rest(e))
			rounds++
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(confirmInterval):
		}
		settled := false
		err = m.tellUntil(ctx, e, func(ctx context.Context, e Eviction) (err error) {
			settled, err = m.API.Confirm(ctx, e)
			return err
		})
		if err != nil {
			return err
		}
		if settled && len(m.rest(e)) == 0 {
			return nil
		}
	}
	return errRunsOn
}

// rest are the cgroups of containers of an evicted pod that run.
func (m *Manager) rest(e Eviction) []string {
	return slices.DeleteFunc(m.Rest(e.UID), m.empty)
}

// errRunsOn says that the kubelet does not end the pod.
var errRunsOn = errors.New("the kubelet does not end the pod")

// errLate says that it is too late to tell: the containers run again.
var errLate = errors.New("the API server was not told in time, the kubelet starts the containers again")

// errUnconfirmed says that the pod was evicted, and that this could not be made sure of.
var errUnconfirmed = errors.New("the API server was told, and whether the kubelet follows is not certain")

const (
	// apiAttempt is how long one attempt may take: a connection that is half open answers nothing. The first one has a TLS handshake,
	// which took 3.9 s on an emulated node.
	apiAttempt = 5 * time.Second
	// reportDeadline is how old an eviction may be that a new run of the program tells the API server of: it may have been told already.
	reportDeadline = time.Minute
	// confirmInterval is two of the kubelet's looks, and confirmAttempts how often it is waited for: two minutes in all, the longest that a kubelet
	// leaves a pod alone.
	confirmInterval = 2 * time.Second
	confirmAttempts = 60
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
