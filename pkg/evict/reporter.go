package evict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrFinal means that another attempt would fail in the same way.
var ErrFinal = errors.New("not tried again")

const (
	// apiTimeout bounds the attempts to reach the API server: after that the kubelet has long
	// restarted the containers.
	apiTimeout = 10 * time.Second
	// reportDeadline is the age, beyond its grace period, up to which a new run of the program reports
	// an eviction: an older one may have been reported already.
	reportDeadline = time.Minute
	// endInterval is the pause between two looks at containers that end outside of the partition, and
	// the first one between two requests to a runtime to stop a container.
	endInterval = 500 * time.Millisecond
	// confirmInterval is two ticks of the kubelet's sync loop, and confirmTime the longest time for
	// which a kubelet does not sync a pod.
	confirmInterval = 2 * time.Second
	confirmTime     = 2 * time.Minute
	// reasonAttempts is the number of times that the reason of a pod whose end the kubelet has
	// reported is written again. While the kubelet cleans up, it takes the reason over from the API
	// server. After that it overwrites what differs from its own status, until it is restarted
	// (needsReconcile, pkg/kubelet/status/status_manager.go, v1.37.0).
	reasonAttempts = 3
)

var (
	// errLate means that it is too late to report: the containers run again.
	errLate = errors.New("the API server was not notified in time, and the kubelet starts the containers again")
	// errUnconfirmed means that the pod was evicted, and that the kubelet was not seen to follow.
	errUnconfirmed = errors.New("the API server was notified, and it is not certain that the kubelet follows")
	// errRunsOn means that the kubelet does not end the pod.
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

// report reports an eviction in the background. takeAnswers returns the result later. There is no
// result if ctx ends first: the next run of the program reports.
func (r *reporter) report(ctx context.Context, e Eviction, late bool) {
	r.background.Go(func() {
		a := answer{uid: e.UID, at: e.Time, err: errLate}
		if !late {
			//guard: a pod is reported when its containers outside of the partition have ended
			r.endOutside(ctx, e)
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

// takeAnswers returns the results of the reports that have ended since the last call.
func (r *reporter) takeAnswers() []answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	answers := r.answers
	r.answers = nil
	return answers
}

// endOutside ends the containers of the pod outside of the partition, and waits until they have
// ended: no pod may be reported as failed while a container of it runs. They hold no memory of the
// partition, so they have the grace period that the kubelet would give them. The kubelet restarts
// the containers that have ended before, because it does not know of the eviction yet. Those are
// killed.
func (r *reporter) endOutside(ctx context.Context, e Eviction) {
	outside := r.containers.outside(e)
	graceful := e
	graceful.Grace = e.OutsideGrace
	for _, c := range outside {
		r.containers.askRuntime(ctx, graceful, c)
	}
	for begin := time.Now(); ; {
		outside = slices.DeleteFunc(outside, r.containers.ended)
		late := time.Since(begin) - e.OutsideGrace
		//guard: containers outside of the partition are not waited for without end
		if len(outside) == 0 || late > 2*endTimeout {
			return
		}
		restarted := slices.DeleteFunc(r.containers.rest(e), func(c Container) bool {
			//guard: a container outside of the partition keeps its grace period
			//guard: a container outside of the partition that does not end is killed
			return late <= endTimeout && slices.ContainsFunc(outside, func(o Container) bool { return o.Cgroup == c.Cgroup })
		})
		//guard: a container that is restarted while one outside of the partition ends is killed
		r.containers.killAll(e, restarted)
		select {
		case <-ctx.Done():
			return
		case <-time.After(endInterval):
		}
	}
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

// confirm waits until the kubelet follows. The kubelet syncs a pod when one of its containers ends
// (PLEG), each second, or else once in a minute or two. Until then it overwrites the status that
// the API server has accepted with the pod's old one (syncBatch,
// pkg/kubelet/status/status_manager.go). A container that it started between the kill and the
// answer of the API server then continues in a pod that is Running again. So confirm kills the
// running containers of the pod once more, until the kubelet itself has reported that it has ended.
func (r *reporter) confirm(ctx context.Context, e Eviction) error {
	begin, reasons, failed := time.Now(), 0, errRunsOn
	for end := begin.Add(confirmTime); time.Now().Before(end); {
		// A container with a grace period keeps it, and the executor kills it afterwards if it does not
		// end. A container that was started in its place has no grace period.
		running, err := r.containers.running(e)
		if e.Grace > 0 && running && err == nil && time.Since(begin) < e.Grace+2*endTimeout {
			end = time.Now().Add(confirmInterval + confirmTime)
		} else {
			r.containers.killAll(e, r.containers.rest(e))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(confirmInterval):
		}
		//guard: a server that hangs at the confirmation does not keep the containers from being killed
		within, cancel := context.WithTimeout(ctx, apiTimeout)
		known, again, err := r.API.Confirm(within, e)
		cancel()
		if errors.Is(err, ErrFinal) {
			return err
		}
		//guard: an API server that is away for a while does not end the confirmation
		failed = cmp.Or(err, errRunsOn)
		if err != nil || !known || len(r.containers.rest(e)) > 0 {
			continue
		}
		//guard: a reason that the kubelet has dropped is read again after it was written
		if reasons++; !again || reasons == reasonAttempts {
			return nil
		}
	}
	return failed
}

// retry calls the API server for apiTimeout, and once at least.
func (r *reporter) retry(ctx context.Context, e Eviction, call func(context.Context, Eviction) error) (err error) {
	within, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	delay := wait.Backoff{
		Duration: 50 * time.Millisecond,
		Factor:   2,
		Jitter:   0.2,
		Steps:    1 << 30,
		Cap:      2 * time.Second,
	}.DelayFunc()
	_ = delay.Until(within, true, true, func(context.Context) (bool, error) { // err says how it has ended
		err = call(ctx, e)
		return err == nil || errors.Is(err, ErrFinal), nil
	})
	if err == nil || errors.Is(err, ErrFinal) {
		return err // although ctx may have ended meanwhile
	}
	return cmp.Or(ctx.Err(), err)
}
