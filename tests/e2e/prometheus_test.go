//go:build node

package e2e

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"

	"node-partition.io/node-partition/tests/lab"
)

// scrapeInterval is the interval of scrapes and of rules.
const scrapeInterval = 5 * time.Second

// prometheus is a Prometheus on this machine that scrapes the monitors of nodes.
type prometheus struct {
	promv1.API
	started time.Time
}

// newPrometheus starts a Prometheus that scrapes addresses of this machine, by the values of the
// label instance, and ends it with the test. faster divides the times of the alerts, 1 for none.
func newPrometheus(t *testing.T, faster int, targets map[string]string) prometheus {
	t.Helper()
	dir := t.TempDir()
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: %s, evaluation_interval: %s, external_labels: {cluster: lab}}\n", scrapeInterval, scrapeInterval)
	config.WriteString("rule_files: [alerts.yaml, recording.yaml]\nscrape_configs:\n- job_name: node-partition\n  static_configs:\n")
	for name, target := range targets {
		fmt.Fprintf(&config, "  - {targets: [%q], labels: {instance: %s, cluster: lab}}\n", target, name)
	}
	files := map[string]string{"prometheus.yaml": config.String()}
	for _, name := range []string{"alerts.yaml", "recording.yaml"} {
		data, err := os.ReadFile("../../deploy/prometheus/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = hastened(t, string(data), faster)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	address := freeAddress(t)
	command := exec.Command("../prometheus", "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	var log strings.Builder
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait() // it ends by the signal
		if t.Failed() {
			t.Logf("prometheus:\n%s", &log)
		}
	})
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	p := prometheus{promv1.NewAPI(client), time.Now()}
	waits(t, "Prometheus is ready", func(ctx context.Context) (bool, string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/-/ready", nil)
		if err != nil {
			return false, err.Error()
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, response.Status
	})
	return p
}

// waits waits until a condition holds. cond returns the state that it saw.
func waits(t *testing.T, what string, cond func(context.Context) (bool, string)) {
	t.Helper()
	var seen string
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, 5*time.Minute, true, func(ctx context.Context) (ok bool, _ error) {
		ok, seen = cond(ctx)
		return ok, nil
	})
	if err != nil {
		t.Fatalf("%s: %v: %s", what, err, seen)
	}
}

// duration matches the times of alerts: how long a condition has to hold, and ranges.
var duration = regexp.MustCompile(`( for: |\[)(\d+)([mh])(\]|\n)`)

// hastened returns rules with all their times divided.
func hastened(t *testing.T, rules string, by int) string {
	t.Helper()
	found := 0
	rules = duration.ReplaceAllStringFunc(rules, func(match string) string {
		found++
		parts := duration.FindStringSubmatch(match)
		time, err := model.ParseDuration(parts[2] + parts[3])
		if err != nil {
			t.Fatal(err)
		}
		return parts[1] + (time / model.Duration(by)).String() + parts[4]
	})
	if strings.Contains(rules, "alert:") && found == 0 {
		t.Fatal("no times in the alerts: this test does not find them any more")
	}
	return rules
}

// freeAddress returns a loopback address on which no process listens at the moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// forwarded returns an address on this machine that leads to an address of the node's own.
func forwarded(t *testing.T, n *lab.Node, address string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ctx := t.Context()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer conn.Close()
				to, err := n.Dial(ctx, "tcp", address)
				if err != nil {
					return // as if the node had refused
				}
				defer to.Close()
				go func() {
					_, _ = io.Copy(to, conn) // the scrape reports it
					_ = to.Close()
				}()
				_, _ = io.Copy(conn, to)
			}()
		}
	}()
	return listener.Addr().String()
}

// fires waits until an alert fires for the node under load.
func (p prometheus) fires(t *testing.T, alert string) {
	t.Helper()
	waits(t, alert+" fires", func(ctx context.Context) (bool, string) {
		alerts, err := p.Alerts(ctx)
		if err != nil {
			return false, err.Error()
		}
		seen := make([]string, 0, len(alerts.Alerts))
		for _, a := range alerts.Alerts {
			name, of := string(a.Labels["alertname"]), string(a.Labels["instance"])
			if name == alert && of == loadedNode && a.State == promv1.AlertStateFiring {
				return true, ""
			}
			seen = append(seen, fmt.Sprintf("%s of %s: %s", name, of, a.State))
		}
		return false, fmt.Sprint(seen)
	})
	t.Logf("%s fires after %.0f s", alert, time.Since(p.started).Seconds())
}

// series returns the result of a query from the start of Prometheus until now.
func (p prometheus) series(t *testing.T, query string) model.Matrix {
	t.Helper()
	value, _, err := p.QueryRange(t.Context(), query, promv1.Range{Start: p.started, End: time.Now(), Step: scrapeInterval})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		t.Fatalf("%s: the result is a %s", query, value.Type())
	}
	return matrix
}

// quiet: no alert has fired for an instance.
func (p prometheus) quiet(t *testing.T, instance string) {
	t.Helper()
	for _, s := range p.series(t, `ALERTS{alertstate="firing", instance="`+instance+`"}`) {
		t.Errorf("an alert has fired on a node without a fault, %d times: %s", len(s.Values), s.Metric)
	}
	if up := p.series(t, `up{instance="`+instance+`"}`); len(up) != 1 || len(up[0].Values) < 3 {
		t.Errorf("%s was not scraped: %v", instance, up)
	}
}

// writeCSV writes series as lines of time in seconds, name, and value.
func writeCSV(to io.Writer, legend string, all model.Matrix) error {
	w := csv.NewWriter(to)
	for _, s := range all {
		for _, sample := range s.Values {
			seconds := strconv.FormatFloat(float64(sample.Timestamp)/1000, 'f', 3, 64)
			if err := w.Write([]string{seconds, legendOf(legend, s.Metric), sample.Value.String()}); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

var legendLabel = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)

// legendOf returns the name that Grafana gives to a series.
func legendOf(legend string, labels model.Metric) string {
	return legendLabel.ReplaceAllStringFunc(legend, func(match string) string {
		return string(labels[model.LabelName(legendLabel.FindStringSubmatch(match)[1])])
	})
}
