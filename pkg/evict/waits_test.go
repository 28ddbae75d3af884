package evict

import (
	"testing"
	"time"
)

// TestWaits: the numbers that docs/eviction.md promises. Other tests name them as the program does.
func TestWaits(t *testing.T) {
	for name, test := range map[string]struct{ got, want time.Duration }{
		"between two readings, least":                   {minPollInterval, 2 * time.Millisecond},
		"between two readings, most":                    {maxPollInterval, time.Second},
		"for a second reading":                          {rereadDelay, 3 * time.Millisecond},
		"for containers to end, least":                  {leastGrace, 2 * time.Second},
		"for killed processes to end":                   {endTimeout, 10 * time.Second},
		"for the API server":                            {apiTimeout, 10 * time.Second},
		"for the kubelet":                               {confirmTime, 2 * time.Minute},
		"between two questions about the pod":           {confirmInterval, 2 * time.Second},
		"for half of the memory":                        {reclaimTimeout, 30 * time.Second},
		"for half of the memory of a restart":           {drainTimeout, 2 * time.Second},
		"after a kill by the kernel":                    {reapTimeout, 3 * time.Second},
		"while a pod is unknown":                        {unknownPatience, 5 * time.Second},
		"until an oom is forgotten":                     {oomPause, 3 * time.Second},
		"for an oom to prove something":                 {oomSettle, time.Second},
		"for memory to be taken back":                   {reapPatience, 20 * time.Millisecond},
		"for kills of a pod":                            {killPatience, 20 * time.Millisecond},
		"for the kernel to kill":                        {condemnPatience, time.Second},
		"until the shortage is written again":           {shortageRenewal, time.Second},
		"age of a shortage":                             {shortageAge, time.Minute},
		"age of an eviction that is still reported":     {reportDeadline, time.Minute},
		"between two readings of memory.stat, most":     {statInterval, time.Second},
		"between two readings of the pods, most":        {maxRest, 5 * time.Second},
		"between two readings of the pods, while held":  {heldPollInterval, 100 * time.Millisecond},
		"between two measurements of memory of no pod":  {ownerlessInterval, 5 * time.Minute},
		"between two reloads for a lowered limit, most": {maxLoweringPause, time.Hour},
		"between two messages about the same":           {retryInterval, time.Minute},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s; docs/eviction.md has %s", name, test.got, test.want)
		}
	}
	for name, test := range map[string]struct{ got, want uint64 }{
		"left when the kernel is made to kill":     {nearLimit, 16 << 20},
		"what the kernel needs for a pod, at most": {kernelNeeds, 1 << 20},
		"times a decision takes, until the next":   {restShare, 100},
	} {
		if test.got != test.want {
			t.Errorf("%s: %d; docs/eviction.md has %d", name, test.got, test.want)
		}
	}
}
