package daemon

import (
	"sync"
	"time"

	"node-partition.io/node-partition/pkg/podmove"
)

// freshFor is the time for which a configuration is not read again. The runtime waits two seconds
// for an answer (plugin_request_timeout), and ends a plugin that takes longer. While a node boots,
// it creates many containers at once, and all CPUs are busy: on an emulated node with two CPUs an
// answer that read the configuration took longer than that.
const freshFor = 5 * time.Second

// recent returns the result of read, or a former one that is at most freshFor old. It does not keep
// an error or the lack of a partition, which may end at any moment of a boot.
func recent(read func() (podmove.Policy, error)) func() (podmove.Policy, error) {
	var mu sync.Mutex
	var kept podmove.Policy
	var until time.Time
	return func() (podmove.Policy, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(until) {
			return kept, nil
		}
		c, err := read()
		if err != nil || c.Off() {
			return c, err
		}
		kept, until = c, time.Now().Add(freshFor)
		return c, nil
	}
}
