//go:build node

package e2e

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// TestSoakMemory: for two hours, or SOAK, pods come and go, systemd is reloaded and Prometheus
// scrapes. One monitor serves all of it, and its memory, its goroutines and its open files stay
// flat: what it has in the last third was seen in the first. No alert fires, with the times that
// are in the file.
func TestSoakMemory(t *testing.T) {
	lasts := 2 * time.Hour
	if text := os.Getenv("SOAK"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := seedFrom(t, "CHURN_SEED")
	onOne(t, func(t *testing.T, flavour string) {
		n := atRest(t, flavour, "1Gi")
		p := newPrometheus(t, 1, map[string]string{quietNode: forwarded(t, n, metricsAddress)})
		c := newChurner(t, n, flavour, seed)
		// Resident memory that is no file's. The text of the program comes and goes with the page cache.
		readings := map[string]func() float64{
			"RssAnon, in KiB": func() float64 {
				return float64(parse(t, run(t, n, "awk '/^RssAnon:/ {print $2}' /proc/$(systemctl show --value -p MainPID "+monitorUnit+")/status")))
			},
		}
		for _, series := range []string{"go_goroutines", "process_open_fds"} {
			readings[series] = func() float64 {
				value, err := metric(t.Context(), n, series)
				if err != nil {
					t.Fatal(err)
				}
				return value
			}
		}
		seen := map[string][]float64{}
		rounds := 0
		for begin := time.Now(); rounds < 6 || time.Since(begin) < lasts; rounds++ {
			c.run(t, fmt.Sprintf("round-%d", rounds), func(step, steps int) {
				if step == steps/2 {
					run(t, n, "systemctl daemon-reload")
				}
			})
			c.settled(t)
			for name, read := range readings {
				seen[name] = append(seen[name], read())
			}
		}
		want(t, n, "systemctl show --value -p NRestarts "+monitorUnit, "0")
		p.quiet(t, quietNode)
		for name, values := range seen {
			t.Logf("%s after each of %d rounds: %v", name, rounds, values)
			first, last := values[:rounds/3], values[rounds-rounds/3:]
			if slices.Min(last) > slices.Max(first) {
				t.Errorf("%s grows: at most %v in the first third of the rounds, and at least %v in the last", name, slices.Max(first), slices.Min(last))
			}
		}
	})
}
