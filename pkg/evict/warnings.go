package evict

import "time"

// maxWarnings is how many texts are remembered: names of pods are in them.
const maxWarnings = 1000

// warnings passes warnings on, each text once in retryInterval. It is used by the goroutine in Run.
type warnings struct {
	*Options
	at map[string]time.Time
}

func (w *warnings) warn(err error) {
	text := err.Error()
	if at, ok := w.at[text]; ok && time.Since(at) < retryInterval {
		return
	}
	if len(w.at) >= maxWarnings {
		clear(w.at)
	}
	w.at[text] = time.Now()
	w.Events.Warn(err)
}
