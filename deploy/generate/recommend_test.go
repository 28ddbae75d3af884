package main

import (
	"bytes"
	"errors"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"nodepartition/deploy/generate/promapi"
)

const (
	mebi = 1 << 20
	day  = 24 * time.Hour
	// length is the length of the histories.
	length = 8 * day
)

// begin is the start of the histories.
var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// fleetNode is a made-up node.
type fleetNode struct {
	name, shape string
	// used returns the usage of the partition in MiB in the minute that ends so long after the start.
	used func(since time.Duration) uint64
	// from and to bound its life, and gap is the start of three hours in which it was off, 0 for none.
	from, to, gap time.Duration
	// racked is the time from which on its target has one more label, 0 for none.
	racked time.Duration
	// waiting is the usage in MiB of members outside.
	waiting uint64
	// evicted and killed are times of an eviction and of a kill at the limit, 0 for none.
	evicted, killed time.Duration
	cpus            uint64
}

func flat(mebis uint64) func(time.Duration) uint64 {
	return func(time.Duration) uint64 { return mebis }
}

// fleetNodes returns nodes of three shapes, with what recommend has to be right about.
func fleetNodes() []fleetNode {
	nightly := func(since time.Duration) uint64 {
		if of := since % day; of >= 3*time.Hour+10*time.Minute && of < 3*time.Hour+40*time.Minute {
			return 500
		}
		return 200
	}
	growing := func(perHour float64) func(time.Duration) uint64 {
		return func(since time.Duration) uint64 { return 200 + uint64(perHour*math.Floor(since.Hours())) }
	}
	return []fleetNode{
		{name: "large-1", shape: "large", used: nightly, cpus: 128},
		{name: "large-2", shape: "large", used: flat(300), cpus: 128, gap: 50 * time.Hour, racked: 70*time.Hour + 20*time.Minute},
		{name: "large-3", shape: "large", used: flat(310), cpus: 128, from: 1 * day, to: 7 * day},
		{name: "small-1", shape: "small", used: flat(200), cpus: 4},
		{name: "small-2", shape: "small", used: growing(0.5), cpus: 4},
		{name: "small-3", shape: "small", used: growing(3), cpus: 4},
		{name: "small-4", shape: "small", used: flat(150), cpus: 4, waiting: 100},
		{name: "tight-1", shape: "tight", used: flat(180), cpus: 8, evicted: 30*time.Hour + 20*time.Minute},
		{name: "tight-2", shape: "tight", used: flat(170), cpus: 8, killed: 90*time.Hour + 20*time.Minute},
	}
}

// alive reports whether a node runs at a time.
func (n fleetNode) alive(since time.Duration) bool {
	until := n.to
	if until == 0 {
		until = length
	}
	off := n.gap > 0 && since >= n.gap && since < n.gap+3*time.Hour
	return since >= n.from && since < until && !off
}

// amounts returns the values that a node serves in a minute, by metric and labels.
func (n fleetNode) amounts(since time.Duration) map[string]float64 {
	used := float64(n.used(since) * mebi)
	peak := used
	for before := time.Minute; before < 5*time.Minute; before += time.Minute {
		if n.alive(since - before) {
			peak = max(peak, float64(n.used(since-before)*mebi))
		}
	}
	after := func(at time.Duration) float64 {
		if at > 0 && since >= at {
			return 1
		}
		return 0
	}
	waiting := float64(n.waiting * mebi)
	return map[string]float64{
		`nodepartition_memory_used_bytes{partition="system"}`:                                                used,
		`nodepartition_memory_used_peak_bytes{partition="system"}`:                                           peak,
		`nodepartition_memory_waiting_bytes{partition="system"}`:                                             waiting,
		`nodepartition_memory_working_set_bytes{partition="system",slice="kubepods-system.slice"}`:           used + 20*mebi,
		`nodepartition_memory_working_set_bytes{partition="system",slice="kubepods-system-burstable.slice"}`: 900 * mebi,
		`nodepartition_memory_waiting_working_set_bytes{partition="system"}`:                                 waiting + 10*mebi,
		`nodepartition_members_memory_request_bytes{partition="system"}`:                                     220 * mebi,
		`nodepartition_evictions_total{dry_run="false",method="evict",partition="system",threshold="hard"}`:  after(n.evicted),
		`nodepartition_evictions_total{dry_run="true",method="evict",partition="system",threshold="hard"}`:   since.Hours(),
		`nodepartition_kernel_kills_total{limit="partition",partition="system"}`:                             after(n.killed),
		`nodepartition_kernel_kills_total{limit="pod",partition="system"}`:                                   0,
		`nodepartition_eviction_threshold_bytes{partition="system",threshold="hard"}`:                        40 * mebi,
		`nodepartition_host_memory_working_set_bytes{slice="system.slice"}`:                                  520 * mebi,
		`nodepartition_host_memory_working_set_bytes{slice="user.slice"}`:                                    30 * mebi,
		`nodepartition_budget_memory_bytes{part="capacity"}`:                                                 16 << 30,
		`nodepartition_budget_memory_bytes{part="allocatable"}`:                                              15 << 30,
		`nodepartition_least_threshold_bytes`:                                                                float64(n.cpus * 4096 * 128),
		`nodepartition_memory_used_peak_bytes{partition="telemetry"}`:                                        5 << 30,
	}
}

// scrapeAll returns a Prometheus that has scraped all nodes each minute.
func scrapeAll(t *testing.T, nodes []fleetNode) *promapi.Memory {
	t.Helper()
	m := &promapi.Memory{}
	for _, n := range nodes {
		series := map[string]labels.Labels{}
		before := false
		for since := time.Duration(0); since <= length; since += time.Minute {
			at := begin.Add(since)
			alive := n.alive(since)
			if racked := n.racked > 0 && since == n.racked; before && (!alive || racked) {
				for _, of := range series {
					m.Append(of, at, math.Float64frombits(value.StaleNaN))
				}
				if racked {
					clear(series)
				}
			}
			if before = alive; !alive {
				continue
			}
			for text, amount := range n.amounts(since) {
				if _, ok := series[text]; !ok {
					series[text] = withTarget(t, text, n, n.racked > 0 && since >= n.racked)
				}
				m.Append(series[text], at, amount)
			}
		}
	}
	return m
}

// withTarget adds the labels of a target to a series.
func withTarget(t *testing.T, text string, n fleetNode, racked bool) labels.Labels {
	t.Helper()
	own, err := newParser().ParseMetric(text)
	if err != nil {
		t.Fatal(err)
	}
	b := labels.NewBuilder(own)
	b.Set("job", "node-partition").Set("instance", n.name).Set("instance_type", n.shape)
	if racked {
		b.Set("rack", "a")
	}
	return b.Labels()
}

// record writes the history of a node into a folder, as docs/history.md describes it.
func (n fleetNode) record(t *testing.T, dir string) {
	t.Helper()
	var lines []map[string]any
	const window = 10 * time.Minute
	for from := time.Duration(0); from < length; from += window {
		if !n.alive(from) {
			continue
		}
		peak, low, peakAt := uint64(0), uint64(math.MaxUint64), from
		for since := from; since < from+window; since += time.Minute {
			used := n.used(since) * mebi
			if used > peak {
				peak, peakAt = used, since
			}
			low = min(low, used)
		}
		within := func(at time.Duration) bool { return at > 0 && at >= from && at < from+window }
		partition := map[string]any{
			"name": "system", "slice": "kubepods-system.slice", "usedPeakBytes": peak, "usedLowBytes": low,
			"peakTime": begin.Add(peakAt), "currentPeakBytes": peak + 100*mebi, "hardBytes": 40 * mebi,
			"cache": map[string]any{"workingSetBytes": peak + 20*mebi},
			"pods": map[string]any{
				"members": 3, "requestBytes": 220 * mebi, "waiting": 1, "waitingUsedBytes": n.waiting * mebi,
				"allUsedBytes": peak + n.waiting*mebi, "allWorkingSetBytes": peak + n.waiting*mebi + 30*mebi,
			},
		}
		if within(n.evicted) {
			partition["evicted"] = []string{"kube-system/collector"}
		}
		if within(n.killed) {
			partition["killedAtLimit"] = 2
		}
		lines = append(lines, map[string]any{
			"time": begin.Add(from + window - time.Minute), "seconds": 600, "boot": "0a1b2c3d",
			"node":       map[string]any{"cpus": n.cpus, "memoryBytes": 16 << 30, "pageBytes": 4096, "pods": 30},
			"partitions": []any{partition, map[string]any{"name": "telemetry", "slice": "kubepods-telemetry.slice", "usedPeakBytes": 5 << 30}},
			"groups": []any{
				map[string]any{"name": "system.slice", "workingSetBytes": 520 * mebi},
				map[string]any{"name": "user.slice", "workingSetBytes": 30 * mebi},
				map[string]any{"name": "init.scope", "workingSetBytes": 700 * mebi},
				map[string]any{"name": "system.slice/kubelet.service", "kube": true, "workingSetBytes": 120 * mebi},
			},
		})
	}
	if err := promapi.WriteHistory(dir, lines); err != nil {
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

// serve serves a Prometheus whose clock stands at a time.
func serve(t *testing.T, of *promapi.Memory, now time.Time) string {
	t.Helper()
	server := httptest.NewServer(promapi.Handler(promapi.NewEngine(), of, func() time.Time { return now }, nil))
	t.Cleanup(server.Close)
	return server.URL
}

// TestRecommend: the histories of nine nodes give the same as a Prometheus that has scraped them,
// and what is missing in a Prometheus is said, without a number.
func TestRecommend(t *testing.T) {
	t.Parallel()
	nodes := fleetNodes()
	program := buildMonitor(t)
	scraped := scrapeAll(t, nodes)
	dir := t.TempDir()
	folders := make([]string, 0, len(nodes))
	for _, n := range nodes {
		n.record(t, filepath.Join(dir, n.name))
		folders = append(folders, "--dir="+n.shape+"="+filepath.Join(dir, n.name))
	}
	url := serve(t, scraped, begin.Add(length))

	t.Run("the same from both", func(t *testing.T) {
		t.Parallel()
		for _, more := range [][]string{nil, {"--output=json"}, {"--without-leaks"}, {"--force"}, {"--at-limit=400Mi"}} {
			recorded, problems, status := program.recommend(t, append(folders, more...)...)
			got, gotProblems, gotStatus := program.recommend(t, append([]string{"--prometheus=" + url}, more...)...)
			if got != recorded || gotProblems != problems || gotStatus != status {
				t.Errorf("%v: exit status %d from Prometheus:\n%s%s\nand %d from the histories:\n%s%s",
					more, gotStatus, got, gotProblems, status, recorded, problems)
			}
		}
	})
	t.Run("what it says", func(t *testing.T) {
		t.Parallel()
		got, problems, status := program.recommend(t, "--prometheus="+url, "--at-limit=400Mi")
		for _, want := range []string{
			"# Shape large: 3 nodes", "# Shape small: 4 nodes", "# Shape tight: 2 nodes",
			"large-1 needs most: the peak is 500Mi",   // 575Mi, and the threshold for 128 CPUs
			"evictionHard 64Mi", "memoryLimit: 640Mi", // of large
			"the kernel killed at the limit, with a threshold of 40Mi", // of tight
			"left out: node small-3, with a leak that no limit is made for",
			"memory would have been low on 1 of the nodes: small-3",
			"kubeReserved and systemReserved together, memory 640Mi", // 550Mi and 15 %
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in:\n%s", want, got)
			}
		}
		if status != 1 || !strings.Contains(problems, "the section for small would evict at once") {
			t.Errorf("exit status %d, %s", status, problems)
		}
	})
	t.Run("another partition, and some nodes", func(t *testing.T) {
		t.Parallel()
		got, _, _ := program.recommend(t, "--prometheus="+url, "--partition=telemetry", "--match=instance_type=\"tight\"")
		if !strings.Contains(got, "workloadPartitions.telemetry.memoryLimit") || strings.Contains(got, "Shape large") {
			t.Errorf("%s", got)
		}
	})
	t.Run("two days", func(t *testing.T) {
		t.Parallel()
		got, problems, status := program.recommend(t, "--prometheus="+serve(t, scraped, begin.Add(2*day)), "--match=instance_type=\"tight\"")
		if status != 0 || !strings.Contains(got, "the margin is 50 %") || !strings.Contains(got, "memoryLimit: ") || problems == "" {
			t.Errorf("exit status %d, %s%s", status, got, problems)
		}
	})
	t.Run("twenty hours", func(t *testing.T) {
		t.Parallel()
		got, problems, status := program.recommend(t, "--prometheus="+serve(t, scraped, begin.Add(20*time.Hour)), "--match=instance_type=\"tight\"")
		if status != 1 || strings.Contains(got, "memoryLimit") || strings.Contains(got, "Mi") || !strings.Contains(problems, "20h0m0s of history each") {
			t.Errorf("exit status %d, %s%s", status, got, problems)
		}
	})
	empty := serve(t, &promapi.Memory{}, begin.Add(length))
	for name, test := range map[string]struct {
		args   []string
		want   string
		status int
	}{
		"empty":             {[]string{"--prometheus=" + empty}, "has no series nodepartition_memory_used_peak_bytes", 1},
		"unreachable":       {[]string{"--prometheus=http://127.0.0.1:1"}, "does not tell its time: ", 1},
		"no label":          {[]string{"--prometheus=" + url, "--by=zone"}, "has the label zone", 1},
		"bad matcher":       {[]string{"--prometheus=" + url, "--match=a=b"}, "does not tell the names of the nodes", 1},
		"no address":        {[]string{"--prometheus=prometheus:9090"}, "want an address", 2},
		"both":              {[]string{"--prometheus=" + url, "--dir=/"}, "want no --dir beside it", 2},
		"by without":        {[]string{"--by=zone"}, "want --prometheus beside it", 2},
		"a folder is empty": {[]string{"--dir=a=" + t.TempDir() + "/none"}, "no history in", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems, status := program.recommend(t, test.args...)
			if status != test.status || !strings.Contains(problems, test.want) || got != "" {
				t.Errorf("exit status %d; want %d: %s%s; want %q", status, test.status, got, problems, test.want)
			}
		})
	}
}
