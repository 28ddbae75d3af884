package evict

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrFinal says that another attempt would end as this one.
var ErrFinal = errors.New("not tried again")

const (
	// apiTimeout is how long the API server is asked: after that the kubelet has long started the
	// containers again.
	apiTimeout = 10 * time.Second
	// apiAttempt is how long one attempt may take: a connection that is half open answers nothing.
	// The first one has a TLS handshake, which took 3.9 s on an emulated node.
	apiAttempt = 5 * time.Second
	// reportDeadline is how old an eviction may be that a new run of the program reports: it may
	// have been reported already.
	reportDeadline = time.Minute
	// confirmInterval is two of the kubelet's looks, and confirmAttempts how often it is waited
	// for: two minutes in all, the longest that a kubelet leaves a pod alone.
	confirmInterval = 2 * time.Second
	confirmAttempts = 60
)

var (
	// errLate says that it is too late to report: the containers run again.
	errLate = errors.New("the API server was not told in time, the kubelet starts the containers again")
	// errUnconfirmed says that the pod was evicted, and that this could not be made sure of.
	errUnconfirmed = errors.New("the API server was told, and whether the kubelet follows is not certain")
	// errRunsOn says that the kubelet does not end the pod.
	errRunsOn = errors.New("the kubelet does not end the pod")
)

// reporter reports evictions to the API server, each in a goroutine.
type reporter struct {
	*Options
	containers *containers
	background *sync.WaitGroup
	wake       func()

	mu      sync.Mutex
	answers []answer
}

// report reports an eviction in the background. How that has ended is among the answers later. It
// has none where ctx ends before: the next run of the program reports.
func (r *reporter) report(ctx context.Context, e Eviction, late bool) {
	r.background.Go(func() {
		a := answer{uid: e.UID, at: e.Time, err: errLate}
		if !late {
			a.accepted, a.err = r.reported(ctx, e)
		}
		if ctx.Err() != nil {
			return
		}
		if a.err != nil {
			r.Events.Failed(e, StepAPI, a.err)
		}
		r.mu.Lock()
		r.answers = append(r.answers, a)
		r.mu.Unlock()
		r.wake()
	})
}

// takeAnswers returns the reports that have ended since it was last called.
func (r *reporter) takeAnswers() []answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	answers := r.answers
	r.answers = nil
	return answers
}

// reported reports an eviction and waits for the kubelet. accepted means that the API server has
// evicted the pod.
func (r *reporter) reported(ctx context.Context, e Eviction) (accepted bool, err error) {
	if err := r.retry(ctx, e, r.API.Evict); err != nil {
		if !errors.Is(err, ErrFinal) {
			err = fmt.Errorf("%w: %w", errLate, err)
		}
		return false, err
	}
	if err := r.confirm(ctx, e); err != nil {
		return true, fmt.Errorf("%w: %w", errUnconfirmed, err)
	}
	return true, nil
}

// confirm waits until the kubelet follows. The kubelet looks at a pod anew when one of its
// containers ends (PLEG), each second, or else once in a minute or two; until then it writes the
// pod's status as it was over what the API server has accepted (syncBatch,
// pkg/kubelet/status/status_manager.go). A container that it has started between the kill and the
// answer of the API server runs on then, in a pod that is Running again: seen with 1.37.0 where the
// monitor was killed in between, and where the runtime reported the end to the kubelet 14 s late.
// So confirm ends what runs of the pod once more, until the kubelet itself has reported that the
// pod has ended.
func (r *reporter) confirm(ctx context.Context, e Eviction) error {
	begin := time.Now()
	for attempts := 0; attempts < confirmAttempts; {
		// A container that has been given time has it, and what does not end after that the
		// executor kills; one that was started in its place has none.
		running, err := r.containers.running(e)
		if graceful := e.Grace > 0 && running && err == nil && time.Since(begin) < e.Grace+2*endTimeout; !graceful {
			r.containers.killAll(e, r.containers.rest(e))
			attempts++
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(confirmInterval):
		}
		settled := false
		err = r.retry(ctx, e, func(ctx context.Context, e Eviction) (err error) {
			settled, err = r.API.Confirm(ctx, e)
			return err
		})
		if err != nil {
			return err
		}
		if settled && len(r.containers.rest(e)) == 0 {
			return nil
		}
	}
	return errRunsOn
}

// retry calls the API server for apiTimeout, and once at least.
func (r *reporter) retry(ctx context.Context, e Eviction, call func(context.Context, Eviction) error) error {
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
