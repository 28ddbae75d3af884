package daemon

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// in returns a policy of one partition with one namespace.
func in(namespace string) podmove.Policy {
	return podmove.Policy{Partitions: []decision.Partition{{Name: partition.System, Namespaces: []string{namespace}}}}
}

// TestRecent: the configuration is read once for the containers of a few seconds, and for each one
// until there are members.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		present, problem := podmove.Policy{}, errors.New("not yet")
		config := recent(func() (podmove.Policy, error) {
			reads++
			return present, problem
		})
		for _, step := range []struct {
			name    string
			set     func()
			off     bool
			members string
			wrong   bool
			reads   int
		}{
			{"error", func() {}, false, "", true, 1},
			{"no partition", func() { present, problem = podmove.Policy{}, nil }, true, "", false, 2},
			{"members", func() { present = in("a") }, false, "a", false, 3},
			{"changed at once", func() { present = in("b") }, false, "a", false, 3},
			{"later", func() { <-time.After(freshFor) }, false, "b", false, 4},
			{"broken at once", func() { problem = errors.New("broken") }, false, "b", false, 4},
			{"broken later", func() { <-time.After(freshFor) }, false, "", true, 5},
		} {
			step.set()
			c, err := config()
			members := ""
			if err == nil && len(c.Namespaces()) > 0 {
				members = c.Namespaces()[0]
			}
			if (err != nil) != step.wrong || err == nil && c.Off() != step.off || members != step.members || reads != step.reads {
				t.Errorf("%s: %+v, %v after %d reads; want members %q, off %t, an error %t, %d reads",
					step.name, c, err, reads, step.members, step.off, step.wrong, step.reads)
			}
		}
	})
}
