package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
	"node-partition.io/node-partition/tests/fakenode"
)

// freeAddress returns an address of this machine that no process listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// scraped returns the metrics of a service, empty while it does not serve them.
func scraped(ctx context.Context, address string) string { return served(ctx, address, "/metrics") }

// served returns a document of a service.
func served(ctx context.Context, address, path string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}

// TestRunServes: all parts of the service run. What passes have found and what the evictor has
// polled is in the metrics, the configuration and its problem too, and the service ends with its
// context.
func TestRunServes(t *testing.T) {
	t.Parallel()
	n := &fakeNode{fakenode.Guarded(t), t}
	n.TellPods()
	n.Measure(partition.System, 7*24*time.Hour, fakenode.Nightly)
	record, _, err := sizefile.Read(n.Host().Root, partition.System)
	if err != nil {
		t.Fatal(err)
	}
	recommended := node.Advise(n.Host().Root, &record).LimitBytes // as the command recommend
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := Options{Options: n.Options(), Tick: time.Second, PerPod: true, Log: slog.New(slog.DiscardHandler)}
	o.Listen = freeAddress(t)
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	wanted := []string{
		`nodepartition_memory_available_bytes{partition="system"} `,
		`nodepartition_memory_used_bytes{partition="system"} `,
		`nodepartition_memory_used_peak_bytes{partition="system"} `,
		`nodepartition_eviction_threshold_bytes{partition="system",threshold="hard"} 3.3554432e+07`,
		`nodepartition_configured_memory_limit_bytes{partition="system"} 1.00663296e+08`,
		fmt.Sprintf(`nodepartition_memory_recommended_bytes{partition="system"} %v`, float64(recommended)),
		`nodepartition_memory_measured_seconds{partition="system"} 604800`,
		`nodepartition_source_connected{source="runtime"} 1`,
		`nodepartition_source_connected{source="kubelet"} 1`,
		`kubelet_partition_pods{partition="system"} 2`,
		`nodepartition_pod_memory_working_set_bytes{namespace="kube-system",partition="system",pod="dns",`,
	}
	missing := wanted
	for len(missing) > 0 && ctx.Err() == nil {
		text := scraped(ctx, o.Listen)
		missing = nil
		for _, want := range wanted {
			if !strings.Contains(text, "\n"+want) {
				missing = append(missing, want)
			}
		}
		if len(missing) > 0 {
			select {
			case err := <-ended:
				t.Fatalf("it ended: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("the metrics lack %q:\n%s", missing, scraped(t.Context(), o.Listen))
	}
	for path, wanted := range map[string][]string{
		"/":       {"Partition system</h2>", "below 32Mi available, after 48Mi more", "<td>dns</td>", "The last day</h3>"},
		"/report": {`"partitions":[{"name":"system",`, `"usedPeakBytes":`, `"name":"dns"`},
	} {
		text := served(t.Context(), o.Listen, path)
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, text)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
