package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node/options"
)

var update = flag.Bool("update", false, "write the options into the manual page and the file of settings")

// TestOptionsAreWritten: the manual page and the file in which an operator sets the options of run
// describe them as package options does. "make generate" writes them.
func TestOptionsAreWritten(t *testing.T) {
	t.Parallel()
	flags := runCommand(host.This()).Flags
	common := len(commonFlags())
	lists := [][]cli.Flag{flags[:common], flags[common:]}
	writes(t, "../../man/partition-monitor.8", regexp.MustCompile(`(?s)(From internal/node/options[^\n]*\n\.Bl [^\n]*\n)(.*?)(\.El\n)`), func(i int) string {
		return itemsOf(t, lists[i], manualItem)
	})
	writes(t, "../../units/node-partition.default", regexp.MustCompile(`(?s)(explains them\.\n)(.*?)(#PARTITION_MONITOR_ARGS=)`), func(int) string {
		return itemsOf(t, flags, settingsItem)
	})
}

// writes compares the parts of a file that a pattern finds with the wanted ones. With -update it
// writes those.
func writes(t *testing.T, path string, parts *regexp.Regexp, want func(i int) string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := -1
	after := parts.ReplaceAllStringFunc(string(before), func(part string) string {
		n++
		match := parts.FindStringSubmatch(part)
		return match[1] + want(n) + match[3]
	})
	switch {
	case n < 0:
		t.Errorf("%s has no place for the options", path)
	case after == string(before):
	case *update:
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from internal/node/options: make generate writes it", path)
	}
}

// valueName is the name of a flag's value, in its line of help.
var valueName = regexp.MustCompile("`([A-Z]+)`")

// itemsOf returns the items of a list of flags.
func itemsOf(t *testing.T, flags []cli.Flag, item func(f options.Flag, value, preset string) string) string {
	t.Helper()
	var list strings.Builder
	for _, f := range flags {
		name, value, preset := f.Names()[0], "", ""
		for _, described := range options.Flags {
			if described.Name != name {
				continue
			}
			if match := valueName.FindStringSubmatch(described.Usage); match != nil {
				value, preset = match[1], f.(cli.DocGenerationFlag).GetValue()
			}
			list.WriteString(item(described, value, strings.ReplaceAll(preset, "m0s", "m")))
		}
		if !strings.Contains(list.String(), name) {
			t.Errorf("options.Flags does not have --%s", name)
		}
	}
	return list.String()
}

// settingsItem returns a flag as a comment of a file of settings.
func settingsItem(f options.Flag, value, preset string) string {
	head := "#   --" + f.Name
	if value != "" {
		head += "=" + value
	}
	if preset != "" {
		head += " (" + preset + ")"
	}
	text := fill(strings.ReplaceAll(f.Text, "`", ""), 72)
	return head + "\n#       " + strings.ReplaceAll(text, "\n", "\n#       ") + "\n"
}

// word is a part of a text in backquotes, with the signs after it.
var word = regexp.MustCompile("`([^`]*)`([.,:;)]*)")

// manualItem returns a flag as an item of a list in mdoc(7): each sentence and each macro begins a
// line.
func manualItem(f options.Flag, value, preset string) string {
	item := ".It Fl -" + f.Name
	if value != "" {
		item += " Ns = Ns Ar " + value
	}
	sentences := f.Text
	if preset != "" {
		sentences += " The default is `" + preset + "`."
	}
	if f.Section != "" {
		sentences += " See `" + f.Section + "`."
	}
	for _, sentence := range strings.Split(strings.ReplaceAll(sentences, ". ", ".\n"), "\n") {
		end := 0
		for _, at := range word.FindAllStringSubmatchIndex(sentence, -1) {
			item += plain(sentence[end:at[0]]) + "\n" + macro(sentence[at[2]:at[3]], f.Section)
			for _, sign := range sentence[at[4]:at[5]] {
				item += " " + string(sign)
			}
			end = at[1]
		}
		item += plain(sentence[end:])
	}
	return item + "\n"
}

// macro returns what shows a path, a flag, a section, or another word.
func macro(s, section string) string {
	switch {
	case s == section:
		return ".Sx " + s
	case strings.HasPrefix(s, "/"):
		return ".Pa " + s
	case strings.HasPrefix(s, "--"):
		return ".Fl " + s[1:]
	}
	return ".Sy " + s
}

// plain returns words as separate lines.
func plain(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return ""
	}
	return "\n" + fill(s, 80)
}

// fill breaks a text into lines of a width.
func fill(s string, width int) string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(s) {
		if line != "" && len(line)+1+len(w) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+w, " ")
	}
	return strings.Join(append(lines, line), "\n")
}
