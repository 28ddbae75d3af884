package node

import (
	"testing"
	"time"

	"node-partition.io/node-partition/internal/trialend"
)

// TestIsLate: the timer comes first, and what has stopped it does not keep a trial alive.
func TestIsLate(t *testing.T) {
	t.Parallel()
	end := trialend.Moment{Boot: "b", Since: time.Minute}
	for name, test := range map[string]struct {
		now  trialend.Moment
		want bool
	}{
		"before its end":  {trialend.Moment{Boot: "b", Since: 59 * time.Second}, false},
		"the timer's":     {trialend.Moment{Boot: "b", Since: 69 * time.Second}, false},
		"a while ago":     {trialend.Moment{Boot: "b", Since: 70 * time.Second}, true},
		"in another boot": {trialend.Moment{Boot: "c", Since: time.Second}, true},
		"without a clock": {trialend.Moment{}, false},
	} {
		if got := isLate(end, test.now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
