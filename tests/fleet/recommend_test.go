package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"

	"node-partition.io/node-partition/tests/fleet/promapi"
)

const (
	mebi = 1 << 20
	day  = 24 * time.Hour
)

// now is the time of the Prometheus.
var now = time.Date(2026, 11, 8, 0, 0, 0, 0, time.UTC)

// measured writes the file of a node that has used so many mebibytes for hours, and returns its
// root.
func measured(t *testing.T, hours int, used uint64) string {
	t.Helper()
	root := t.TempDir()
	minutes := make([]uint64, min(hours, 24)*60)
	for i := range minutes {
		minutes[i] = used * mebi
	}
	list := make([][]uint64, hours)
	for i := range list {
		list[i] = []uint64{used * mebi, 60, 5, used * mebi / 3}
	}
	text, err := json.Marshal(map[string]any{
		"version": 1, "partition": "system", "to": now, "minutes": minutes, "hours": list, "passed": 60, "requestBytes": 0,
		"members": map[string]any{"kube-system/dns": map[string]any{"minutes": 60, "first": 1, "last": 1, "peak": used * mebi / 3}},
	})
	path := filepath.Join(root, "var/lib/node-partition/sizes/system.json")
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return root
}

// scrapedFrom adds what a Prometheus has of a node that has measured for a time.
func scrapedFrom(t *testing.T, db *tsdb.DB, cluster, name, shape string, limit uint64, measured time.Duration) {
	t.Helper()
	add := db.Appender(t.Context())
	for metric, value := range map[string]float64{
		"nodepartition_memory_recommended_bytes": float64(limit), "nodepartition_memory_measured_seconds": measured.Seconds(),
	} {
		b := labels.NewBuilder(labels.FromStrings("__name__", metric, "partition", "system", "job", "node-partition", "instance", name))
		b.Set("cluster", cluster).Set("instance_type", shape)
		if _, err := add.Append(0, b.Labels(), now.Add(-time.Minute).UnixMilli(), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := add.Commit(); err != nil {
		t.Fatal(err)
	}
}

// builtMonitor is the path of a partition-monitor.
type builtMonitor string

func buildMonitor(t *testing.T) builtMonitor {
	t.Helper()
	path := filepath.Join(t.TempDir(), "partition-monitor")
	command := exec.Command("go", "build", "-o", path, "./cmd/partition-monitor")
	command.Dir = "../.."
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return builtMonitor(path)
}

// recommend runs the command, and returns what it writes and its exit status.
func (m builtMonitor) recommend(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, problems bytes.Buffer
	command := exec.Command(string(m), append([]string{"recommend"}, args...)...)
	command.Stdout, command.Stderr = &out, &problems
	command.Env = append(os.Environ(), "TZ=UTC")
	err := command.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		t.Fatal(err)
	}
	return out.String(), problems.String(), command.ProcessState.ExitCode()
}

// emptyStorage returns an empty storage of a Prometheus.
func emptyStorage(t *testing.T) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// serve serves a Prometheus.
func serve(t *testing.T, of *tsdb.DB) string {
	t.Helper()
	server := httptest.NewServer(promapi.Handler(promapi.NewEngine(), of, now))
	t.Cleanup(server.Close)
	return server.URL
}

// TestRecommend: recommend prints for each shape the limit of the node that needs most. Younger
// nodes count where a shape has no others. A missing label, and a missing series, have an error.
func TestRecommend(t *testing.T) {
	t.Parallel()
	program := buildMonitor(t)
	alone := func(hours int, used uint64) (limit uint64) {
		t.Helper()
		got, problems, status := program.recommend(t, "--root="+measured(t, hours, used), "-o", "json")
		var a struct{ LimitBytes uint64 }
		if err := json.Unmarshal([]byte(got), &a); err != nil || status != 0 || a.LimitBytes == 0 {
			t.Fatalf("%v, exit status %d: %s%s", err, status, got, problems)
		}
		return a.LimitBytes
	}
	m := emptyStorage(t)
	large, small, young := alone(7*24, 3000), alone(7*24, 200), alone(7, 200)
	if young <= small {
		t.Fatalf("%d for seven hours, %d for a week", young, small)
	}
	scrapedFrom(t, m, "a", "large-1", "large", large, 7*day)
	scrapedFrom(t, m, "a", "small-1", "small", small, 7*day)
	scrapedFrom(t, m, "b", "small-1", "small", small-16*mebi, 7*day)
	scrapedFrom(t, m, "b", "small-2", "small", young, 7*time.Hour)
	scrapedFrom(t, m, "b", "new-1", "new", young, 7*time.Hour)
	scrapedFrom(t, m, "b", "without", "", young, 7*day)
	url := serve(t, m)

	got, problems, status := program.recommend(t, "--prometheus="+url)
	for _, want := range []string{
		"partition system on nodes of large, " + fmt.Sprint(large/mebi) + "Mi", "what a/large-1 needs", fmt.Sprintf("memoryLimit: %dMi\n  namespaces:", large/mebi),
		"partition system on nodes of small, " + fmt.Sprint(small/mebi) + "Mi", "what a/small-1 needs",
		"partition system on nodes of new, " + fmt.Sprint(young/mebi) + "Mi", "# warning: left out: nodes without the label instance_type",
		" do for 9 in 10 of 2 nodes. Half of them have measured 7.0 days or longer.", "# warning: new: half of the nodes have measured 7h00m or less",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if status != 0 || strings.Count(got, "\nsystemPartition:\n") != 3 || strings.Count(problems, "warning: ") != 2 {
		t.Errorf("exit status %d, %s%s", status, got, problems)
	}
	if got, _, _ := program.recommend(t, "--prometheus="+url, "--match=instance_type=\"new\"", "-o", "json"); strings.Count(got, `"shape": `) != 1 ||
		!strings.Contains(got, fmt.Sprintf(`"limitBytes": %d`, young)) {
		t.Errorf("%s", got)
	}
	for name, test := range map[string]struct {
		args   []string
		want   string
		status int
	}{
		"empty":       {[]string{"--prometheus=" + serve(t, emptyStorage(t))}, "has no nodepartition_memory_recommended_bytes of partition system", 1},
		"unreachable": {[]string{"--prometheus=http://127.0.0.1:1"}, "http://127.0.0.1:1 does not answer ", 1},
		"none":        {[]string{"--prometheus=" + url + "/other"}, "does not answer ", 1},
		"no label":    {[]string{"--prometheus=" + url, "--by=zone"}, "has the label zone", 1},
		"bad matcher": {[]string{"--prometheus=" + url, "--match=a=b"}, "parse error", 1},
		"another":     {[]string{"--prometheus=" + url, "--partition=batch"}, "of partition batch", 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems, status := program.recommend(t, test.args...)
			if status != test.status || !strings.Contains(problems, test.want) || got != "" {
				t.Errorf("exit status %d; want %d: %s%s; want %q", status, test.status, got, problems, test.want)
			}
		})
	}
}
