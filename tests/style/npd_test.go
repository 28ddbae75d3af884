package style

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"node-partition.io/node-partition/tests/testkit"
)

// folder has the files for node-problem-detector. Their form is tested by the types that it decodes
// them into (pkg/custompluginmonitor/types, pkg/systemlogmonitor and pkg/types of
// kubernetes/node-problem-detector, August 2026), and the script by running it. Package daemon
// tests that the patterns match the messages.
const folder = "../../deploy/node-problem-detector/"

type condition struct {
	Type       string    `json:"type"`
	Status     string    `json:"status"`
	Transition time.Time `json:"transition"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
}

// logMonitor is MonitorConfig, with the embedded WatcherConfig.
type logMonitor struct {
	Plugin           string            `json:"plugin,omitempty"`
	PluginConfig     map[string]string `json:"pluginConfig,omitempty"`
	SkipList         []string          `json:"skipList,omitempty"`
	LogPath          string            `json:"logPath,omitempty"`
	Lookback         string            `json:"lookback,omitempty"`
	Delay            string            `json:"delay,omitempty"`
	BufferSize       int               `json:"bufferSize"`
	Source           string            `json:"source"`
	Conditions       []condition       `json:"conditions"`
	MetricsReporting *bool             `json:"metricsReporting,omitempty"`
	Rules            []struct {
		Type                          string `json:"type"`
		Condition                     string `json:"condition"`
		Reason                        string `json:"reason"`
		Pattern                       string `json:"pattern"`
		PatternGeneratedMessageSuffix string `json:"patternGeneratedMessageSuffix,omitempty"`
	} `json:"rules"`
}

// customPlugin is CustomPluginConfig.
type customPlugin struct {
	Plugin       string `json:"plugin,omitempty"`
	PluginConfig struct {
		InvokeInterval  string `json:"invoke_interval,omitempty"`
		Timeout         string `json:"timeout,omitempty"`
		MaxOutputLength int    `json:"max_output_length,omitempty"`
		Concurrency     int    `json:"concurrency,omitempty"`
		OnMessage       bool   `json:"enable_message_change_based_condition_update,omitempty"`
		SkipInitial     bool   `json:"skip_initial_status,omitempty"`
	} `json:"pluginConfig,omitempty"`
	Source           string      `json:"source"`
	Conditions       []condition `json:"conditions"`
	MetricsReporting *bool       `json:"metricsReporting,omitempty"`
	Rules            []struct {
		Type           string   `json:"type"`
		Condition      string   `json:"condition"`
		Reason         string   `json:"reason"`
		Path           string   `json:"path"`
		Args           []string `json:"args"`
		Timeout        string   `json:"timeout"`
		InvokeInterval string   `json:"invoke_interval,omitempty"`
	} `json:"rules"`
}

// decode decodes a file, and fails for a field that node-problem-detector would ignore.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestLogMonitors: the rules that node-problem-detector follows for the journal, which it selects
// by the identifier of our programs.
func TestLogMonitors(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"system-partition-monitor.json": "partition-monitor", "system-partition-generator.json": "partition-generator",
	} {
		var c logMonitor
		decode(t, name, &c)
		if c.Plugin != "journald" || c.PluginConfig["source"] != source || c.LogPath == "" || c.BufferSize < 1 || c.Source == "" || len(c.Rules) == 0 {
			t.Errorf("%s: %+v", name, c)
		}
		if _, err := time.ParseDuration(c.Lookback); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, rule := range c.Rules {
			// A temporary problem is an event, and needs no condition.
			if rule.Type != "temporary" || rule.Condition != "" || rule.Reason == "" {
				t.Errorf("%s: %+v", name, rule)
			}
		}
	}
}

// TestCustomPlugin: what node-problem-detector checks when it starts (Validate), and that the
// script may take as long as the check.
func TestCustomPlugin(t *testing.T) {
	t.Parallel()
	const name = "system-partition-check.json"
	var c customPlugin
	decode(t, name, &c)
	interval, intervalErr := time.ParseDuration(c.PluginConfig.InvokeInterval)
	timeout, timeoutErr := time.ParseDuration(c.PluginConfig.Timeout)
	if c.Plugin != "custom" || errors.Join(intervalErr, timeoutErr) != nil || interval <= timeout || c.PluginConfig.MaxOutputLength < 80 || c.Source == "" {
		t.Errorf("%s: %+v", name, c)
	}
	if len(c.Rules) != 1 {
		t.Fatalf("%s: %d rules", name, len(c.Rules))
	}
	rule := c.Rules[0]
	own, err := time.ParseDuration(rule.Timeout)
	if err != nil || own > timeout || rule.Type != "permanent" || rule.Reason == "" || filepath.Base(rule.Path) != "system-partition-check.sh" {
		t.Errorf("%s: %+v, %v", name, rule, err)
	}
	if !slices.ContainsFunc(c.Conditions, func(k condition) bool { return k.Type == rule.Condition && k.Reason != "" && k.Message != "" }) {
		t.Errorf("%s: the condition %s has no default", name, rule.Condition)
	}
}

// TestScript: the exit status of the script is node-problem-detector's, and its output one line.
func TestScript(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		program string // a shell script; empty for none
		status  int
		output  string
	}{
		"fine":     {"echo 'ok       configuration: memoryLimit 64Mi'; echo 'warning  nri: no'; exit 0", 0, "partition-monitor check finds no error\n"},
		"an error": {"echo 'ok       a: b'; echo 'error    slice: memory.max is 1'; echo '        change: x'; echo 'error    c: d'; exit 1", 1, "slice: memory.max is 1\n"},
		"failed":   {"echo 'partition-monitor: error: it has to run as root' >&2; exit 1", 2, "partition-monitor check fails: partition-monitor: error: it has to run as root\n"},
		"usage":    {"echo 'partition-monitor: error: unknown command' >&2; exit 2", 2, "partition-monitor check fails: partition-monitor: error: unknown command\n"},
		"missing":  {"", 2, "partition-monitor is not installed\n"},
	} {
		bin := t.TempDir()
		if test.program != "" {
			testkit.WriteScript(t, filepath.Join(bin, "partition-monitor"), test.program)
		}
		for _, needed := range []string{"sed", "head"} {
			path, err := exec.LookPath(needed)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(bin, needed)); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("/bin/sh", folder+"system-partition-check.sh")
		cmd.Env = []string{"PATH=" + bin}
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != test.status || string(out) != test.output || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s: exit status %d, %q; want %d, %q", name, got, out, test.status, test.output)
		}
	}
}
