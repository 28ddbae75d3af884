package kubeapi

import (
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Spread returns a time between half and one and a half of d. What many nodes do at once, as after
// an outage of their API server, they do at different times with it.
func Spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// Retry spaces out the attempts of a request, by the kind of error. The pauses double, and nodes
// that fail at once try again at different times. Its zero value is ready.
type Retry struct {
	class class
	pause time.Duration
}

// class bounds the pauses after errors of a kind.
type class struct{ first, last time.Duration }

// classOf: an API server that does not answer is back soon, and so is a Node that its kubelet is
// about to register, and a conflict with other writers of an object. What it refuses needs an
// operator.
func classOf(err error) class {
	switch {
	case errors.Is(err, ErrGone), errors.Is(err, ErrNoClient): // the second costs no request
		return class{time.Second, 10 * time.Second}
	case errors.Is(err, ErrUnreachable), apierrors.IsConflict(err):
		return class{time.Second, time.Minute}
	case errors.Is(err, ErrCredentials): // they are renewed by themselves
		return class{time.Second, 5 * time.Minute}
	}
	return class{5 * time.Minute, time.Hour}
}

// maxDemand bounds what an API server demands: the proxy before it may name a day.
const maxDemand = 5 * time.Minute

// After returns the pause after an attempt that has failed with err. It is at least as long as the
// API server demands (Retry-After), up to maxDemand.
func (r *Retry) After(err error) time.Duration {
	if c := classOf(err); c != r.class {
		*r = Retry{c, c.first}
	}
	pause := Spread(r.pause)
	r.pause = min(2*r.pause, r.class.last)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		//guard: an API server that is overloaded is not asked before the time that it names
		pause = max(pause, min(time.Duration(seconds)*time.Second, maxDemand)+rand.N(pause))
	}
	return pause
}
