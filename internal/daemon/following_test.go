package daemon

import (
	"errors"
	"slices"
	"testing"

	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// TestProblemsOf: the metrics have the problems of the configuration that is followed.
func TestProblemsOf(t *testing.T) {
	t.Parallel()
	c := node.Followed{}
	if got := problemsOf(c); len(got) > 0 {
		t.Errorf("%q of a configuration without a problem", got)
	}
	c.Problem = errors.New("memoryLimit: lots")
	c.Decision = decision.Decision{KubeletsFile: true}
	if got := problemsOf(c); !slices.Equal(got, []metrics.Problem{metrics.Refused, metrics.KubeletsFile}) {
		t.Errorf("%q", got)
	}
}
