package daemon

import (
	"sync"
	"time"

	"nodepartition/internal/hostfs"
	"nodepartition/pkg/slices/decision"
)

// refusals notices that partition-generator has refused an edit, or has found it taken back, for
// which systemd is not reloaded. Only passes use last.
type refusals struct {
	changed chan struct{} // has an element after such a change
	// last has what was refused and what was followed when the files were read again for it. A reload
	// may have read half of a file, which was never refused.
	last [2]string
	// reload shows what a reload has refused: the pass that looks meanwhile leaves it to that.
	reload reload
}

// look compares what the generator has refused with the problem that is followed.
func (r *refusals) look(root hostfs.FS, problem error) {
	// The generator records what it refuses before the reload is over. It would count twice.
	//guard: a pass leaves to a reload what that refuses
	if r.reload.pending(time.Now()) {
		return
	}
	refused := decision.ReadWatch(string(root)).Refused
	followed := ""
	if problem != nil {
		followed = problem.Error()
	}
	seen := [2]string{refused, followed}
	//guard: a refusal that a reload has shown is not read a second time
	if refused == followed || seen == r.last {
		return // a reload has shown the same, or the files have been read again for it
	}
	//guard: a refusal in other words is read once
	r.last = seen
	select {
	case r.changed <- struct{}{}:
	default: // one is pending
	}
}

// reloadPatience bounds the time of a reload of systemd: its generators have 90 s. One that has
// failed may end without a signal.
const reloadPatience = 2 * time.Minute

// reload is a reload of systemd, from its beginning until the configuration was read after it.
type reload struct {
	mu sync.Mutex
	// noted counts the beginnings and ends of reloads, and followed those that a reading came after.
	noted, followed int
	since           time.Time
}

// note notes that systemd has begun to reload, or that it has ended.
func (r *reload) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noted, r.since = r.noted+1, time.Now()
}

// reading returns what is to be called when the configuration was read, which begins now. A reload
// that begins or ends meanwhile is read after that.
func (r *reload) reading() (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.noted
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		//guard: a reload that ends while another one is read is read, too
		r.followed = now
	}
}

// pending reports whether the configuration is going to be read because of a reload.
func (r *reload) pending(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noted != r.followed && now.Sub(r.since) < reloadPatience
}
