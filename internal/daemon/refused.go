package daemon

import (
	"nodepartition/internal/hostfs"
	"nodepartition/pkg/slices/decision"
)

// refusals notices that partition-generator has refused an edit, or has found it taken back, for
// which systemd is not reloaded. Only passes use it.
type refusals struct {
	changed chan struct{} // has an element after such a change
	last    string
}

// look compares what the generator has refused with the problem that is followed.
func (r *refusals) look(root hostfs.FS, problem error) {
	refused := decision.ReadWatch(string(root)).Refused
	if refused == r.last {
		return
	}
	r.last = refused
	followed := ""
	if problem != nil {
		followed = problem.Error()
	}
	if refused == followed {
		return // a reload has shown the same
	}
	select {
	case r.changed <- struct{}{}:
	default: // one is pending
	}
}
