package generator

import "node-partition.io/node-partition/internal/trialend"

// endTrial ends a trial whose time is over, although its timer has not ended it: something has
// stopped the timer. What reads the configuration then finds none.
func endTrial(root string, now trialend.Moment, log *Log) {
	end, from, ok := trialend.Of(root)
	if !ok || !end.Over(now) {
		return
	}
	if err := trialend.Remove(root); err != nil {
		log.Errorf("the trial of %s is over, and cannot be removed: %v; partition-monitor try --end goes back", from, err)
		return
	}
	log.all(levelWarning, []string{
		"the trial of " + from + " is over, and its timer has not ended it: going back to the configuration before it",
	})
}
