package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/pkg/podmove/report"
	"node-partition.io/node-partition/tests/testkit"
)

// TestReasonsAreDocumented: each reason for a misplaced pod has a row in the page about placement.
func TestReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/troubleshooting/placement.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Reasons\n")
	if !ok {
		t.Fatal("docs/troubleshooting/placement.md has no section Reasons, which metrics.md leads to")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[report.Reason]bool{}
	for line := range strings.Lines(section) {
		if reason, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok {
			rows[report.Reason(reason)] = true
		}
	}
	for _, reason := range report.Reasons() {
		if !rows[reason] {
			t.Errorf("docs/troubleshooting/placement.md does not have the reason %s", reason)
		}
		delete(rows, reason)
	}
	for reason := range rows {
		t.Errorf("docs/troubleshooting/placement.md has the reason %s, which does not exist", reason)
	}
}

// TestExample: the section of the README is docs/example.yaml, and has no warning on a node of the
// size that the README names.
func TestExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../docs/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	indented := "   " + strings.ReplaceAll(strings.TrimSuffix(string(example), "\n"), "\n", "\n   ")
	_, capacity, named := strings.Cut(string(text), "validate --strict FILE --capacity ")
	if !strings.Contains(string(text), "   ```yaml\n"+indented+"\n   ```\n") || !named {
		t.Fatal("README.md does not have docs/example.yaml, or no command that judges it")
	}
	var stdout, stderr bytes.Buffer
	app := newApp(host.Below(t.TempDir()), &stdout, &stderr)
	app.Reader = bytes.NewReader(example)
	capacity, _, _ = strings.Cut(capacity, "`")
	if err := runApp(t, app, "validate", "--strict", "--capacity="+capacity, "-"); err != nil || !strings.Contains(stdout.String(), "ok        left for user pods: ") {
		t.Errorf("%v\n%s%s", err, &stdout, &stderr)
	}
}

// TestTryPage: the commands that need no node run as docs/try.md and README.md have them, and show
// what docs/try.md promises.
func TestTryPage(t *testing.T) {
	t.Chdir("../..")
	shown := map[string][]string{
		"status":    {"log-collector-b4s8d", "restart-policy", "node-critical"},
		"check":     {"warning  swap: ", "1 warning"},
		"plan":      {"left for user pods"},
		"recommend": {"kube-system/log-collector", "\nsystemPartition:\n", "memoryLimit: 1280Mi"},
		"validate":  {"left for user pods"},
	}
	for page, title := range map[string]string{"docs/try.md": "A sample node", "README.md": "Try it"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		commands, err := testkit.Commands(string(text), title)
		if err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		ran := 0
		for _, line := range commands {
			args, ours := strings.CutPrefix(line, "go run ./cmd/partition-monitor ")
			if !ours {
				continue
			}
			ran++
			words := strings.Fields(args)
			status, stdout, stderr := command(t, words...)
			for _, want := range shown[words[0]] {
				if status != exitOK || !strings.Contains(stdout, want) {
					t.Errorf("%s: %s: status %d; want %q in\n%s%s", page, line, status, want, stdout, stderr)
				}
			}
		}
		if ran == 0 {
			t.Errorf("%s has no command that needs no node", page)
		}
	}
}

// calls match a call of a program in a span of code, which may have two lines, and in a line of a
// block, up to what a shell ends it by, or an explanation.
var calls = []*regexp.Regexp{
	regexp.MustCompile("`(partition-monitor|make|kubectl node-partition) ([a-z][^`|;&>#]*)"),
	regexp.MustCompile(`(?m)^ +(?:[$] )?(?:sudo )?(partition-monitor|make|kubectl node-partition) ([a-z]{2}(?: ?[^|;&>#\n ])*)`),
}

// TestCommandsOfPages: each command of ours that a page has exists, and each of its options does.
func TestCommandsOfPages(t *testing.T) {
	t.Parallel()
	app := newApp(host.Below(t.TempDir()), io.Discard, io.Discard)
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for page, text := range testkit.Files(t, "../../*.md", "../../docs/*.md", "../../docs/*/*.md") {
		for _, call := range slices.Concat(calls[0].FindAllStringSubmatch(text, -1), calls[1].FindAllStringSubmatch(text, -1)) {
			program, words := call[1], strings.Fields(call[2])
			seen[program]++
			name := strings.TrimRight(words[0], `\`)
			unknown := ""
			switch program {
			case "make":
				if !regexp.MustCompile(`(?m)^([a-z-]+ )*` + name + `( [a-z-]+)*:`).Match(makefile) {
					unknown = name
				}
			case "kubectl node-partition":
				if !slices.Contains([]string{"status", "check", "explain"}, name) {
					unknown = name
				}
			default:
				unknown = unknownIn(app, words)
			}
			if unknown != "" {
				t.Errorf("%s: %q: there is no %s", page, call[0], unknown)
			}
		}
	}
	for _, program := range []string{"partition-monitor", "make", "kubectl node-partition"} {
		if seen[program] == 0 {
			t.Errorf("no page has a command of %s", program)
		}
	}
}

// unknownIn returns the command, or the option, in the words of a command line that does not exist.
func unknownIn(app *cli.App, words []string) string {
	command := app.Command(words[0])
	if command == nil {
		return words[0]
	}
	for _, word := range words[1:] {
		name, isOption := strings.CutPrefix(strings.Trim(word, "[],."), "-")
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
		has := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }
		if isOption && name != "" && name != "help" && !slices.ContainsFunc(command.Flags, has) {
			return word
		}
	}
	return ""
}

// TestSampleNode: docs/sample-node is one of this version.
func TestSampleNode(t *testing.T) {
	t.Parallel()
	for name, into := range map[string]any{"status.json": &state.Status{}, "check.json": &state.Findings{}} {
		data, err := os.ReadFile("../../docs/sample-node/" + name)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			t.Errorf("%s: %v; go test ./internal/command/collect -run TestCollectRoot -update", name, err)
		}
	}
}
