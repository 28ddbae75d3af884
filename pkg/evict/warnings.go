package evict

import "time"

// maxWarnings bounds the number of remembered texts, which contain names of pods.
const maxWarnings = 1000

// warnings passes warnings on to Events, each text once in retryInterval. Only the goroutine in Run
// uses it.
type warnings struct {
	*Options
	at map[string]time.Time
}

func (w *warnings) warn(err error) {
	text := err.Error()
	if at, ok := w.at[text]; ok && time.Since(at) < retryInterval {
		return
	}
	//guard: warnings do not fill the memory
	if len(w.at) >= maxWarnings {
		clear(w.at)
	}
	w.at[text] = time.Now()
	w.Events.Warn(err)
}
