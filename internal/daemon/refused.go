package daemon

import (
	"nodepartition/internal/hostfs"
	"nodepartition/pkg/slices/decision"
)

// refusals notices that partition-generator has refused an edit, or has found it taken back, for
// which systemd is not reloaded. Only passes use it.
type refusals struct {
	changed chan struct{} // has an element after such a change
	// last has what was refused and what was followed when the files were read again for it. A reload
	// may have read half of a file, which was never refused.
	last [2]string
}

// look compares what the generator has refused with the problem that is followed.
func (r *refusals) look(root hostfs.FS, problem error) {
	refused := decision.ReadWatch(string(root)).Refused
	followed := ""
	if problem != nil {
		followed = problem.Error()
	}
	seen := [2]string{refused, followed}
	if refused == followed || seen == r.last {
		return // a reload has shown the same, or the files have been read again for it
	}
	r.last = seen
	select {
	case r.changed <- struct{}{}:
	default: // one is pending
	}
}
