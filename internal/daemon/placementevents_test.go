package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/daemon/metrics"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/livemove"
)

// TestPlacedEnded: the monitor logs the end of a container during its move as information, and does
// not count it. A container whose unit systemd does not know is an error, and a failed placement.
func TestPlacedEnded(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]string{livemove.ErrGone: "level=INFO", systemd.ErrNoUnit: "level=ERROR"} {
		counters, log := metrics.New(metrics.Options{}), &bytes.Buffer{}
		newPlacementEvents(counters, slog.New(slog.NewTextHandler(log, nil)), func() {}).Placed(podmove.Placement{
			Method: podmove.Live, To: partition.System, Move: &podmove.Move{Pod: &podmove.Pod{}}, Err: fmt.Errorf("moving a.scope: %w", cause),
		})
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("%v: logged %q, want one line with %s", cause, got, want)
		}
		families, err := counters.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := 0.0
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "nodepartition_placements_total" {
					counted += metric.GetCounter().GetValue()
				}
			}
		}
		if (counted > 0) != (want == "level=ERROR") {
			t.Errorf("%v: counted %v failed placements", cause, counted)
		}
	}
}
