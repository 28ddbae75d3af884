package daemon

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/evict"
)

// TestProblemDetectorPatterns: the patterns in deploy/node-problem-detector match the messages of
// the journal, each one for its reason. node-problem-detector has a pattern match to the end of the
// message (CompilePattern, pkg/systemlogmonitor).
func TestProblemDetectorPatterns(t *testing.T) {
	t.Parallel()
	patterns := map[string]*regexp.Regexp{}
	for _, name := range []string{"monitor", "generator"} {
		data, err := os.ReadFile("../../deploy/node-problem-detector/system-partition-" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Rules []struct{ Reason, Pattern string }
		}
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		for _, rule := range file.Rules {
			patterns[name+" "+rule.Reason] = regexp.MustCompile(rule.Pattern + `\z`)
		}
	}
	var log strings.Builder
	journal := newEvictionJournal(slog.New(slog.NewTextHandler(&log, nil)), partition.System)
	// logged returns the message that a call logs.
	logged := func(call func()) string {
		log.Reset()
		call()
		match := regexp.MustCompile(`msg="((?:[^"\\]|\\.)*)"`).FindStringSubmatch(log.String())
		if match == nil {
			t.Fatalf("no message in %q", log.String())
		}
		return match[1] + " pods=x"
	}
	restart, never := anEviction(), anEviction()
	restart.Method, never.Method, never.EndsForGood = evict.Restart, evict.Restart, true
	dry := anEviction()
	dry.DryRun = true
	source := func(path string, text string) string {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), text) {
			t.Fatalf("%s has no message %q", path, text)
		}
		return text + " error=x"
	}
	const generator = "../generator/generator.go"
	for message, want := range map[string]string{
		logged(func() { journal.KernelKilled(evict.AtPartition, 3) }): "monitor " + reasonKilled,
		logged(func() { journal.KernelKilled(evict.AtPod, 3) }):       "",
		logged(func() {
			journal.NoCandidate(evict.Decision{Order: []evict.Candidate{{Skip: evict.SkipStatic}}})
		}): "monitor " + reasonNoCandidate,
		logged(func() { journal.NoCandidate(evict.Decision{Held: evict.HoldUnreclaimable}) }):               "monitor " + reasonNoCandidate,
		logged(func() { journal.NoCandidate(evict.Decision{}) }):                                            "monitor " + reasonNoCandidate,
		logged(func() { journal.Evicting(anEviction()) }):                                                   "monitor SystemPartitionEvicted",
		logged(func() { journal.Evicting(restart) }):                                                        "monitor SystemPartitionEvicted",
		logged(func() { journal.Evicting(never) }):                                                          "monitor SystemPartitionEvicted",
		logged(func() { journal.Evicting(dry) }):                                                            "",
		source("following.go", "the configuration is not valid; following the last good one of this boot"):  "monitor " + reasonInvalid,
		source(generator, "the configuration is not applied; keeping the units of the last good one. "):     "generator " + reasonInvalid,
		source(generator, "no partition is made. "):                                                         "generator " + reasonInvalid,
		source("../generator/changed.go", "the configuration is not applied, and what is in force stays. "): "generator " + reasonInvalid,
		source("ready.go", "connection"):                                                                    "",
	} {
		var matched []string
		for reason, pattern := range patterns {
			if pattern.MatchString(message) {
				matched = append(matched, reason)
			}
		}
		if wanted := slices.DeleteFunc([]string{want}, func(s string) bool { return s == "" }); !slices.Equal(matched, wanted) {
			t.Errorf("%q matches %q; want %q", message, matched, wanted)
		}
	}
}
