package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
)

var update = flag.Bool("update", false, "write the options into the manual pages and the file of settings")

// TestOptionsAreWritten: each command has a manual page. The names, the synopsis and the options in
// it, the list of commands in partition-monitor(8) and the file in which an operator sets the
// options of run are written from the commands, by "make generate".
func TestOptionsAreWritten(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	for _, c := range newApp(host.This(), nil, nil).Commands {
		page := "partition-monitor-" + c.Name
		fmt.Fprintf(&list, ".It Xr %s 1\n%s\n", page, mdoc(c.Usage, ""))
		generated := []string{namesOf(c, page)}
		if len(c.Flags) > 0 {
			generated = append(generated, ".Bl -tag -width Ds\n"+itemsOf(c, manualItem)+".El\n")
		}
		writes(t, "../../man/"+page+".1", regexp.MustCompile(`(?s)(\.Sh (?:NAME|OPTIONS)\n)(.*?)(\.Sh (?:DESCRIPTION|EXIT STATUS)\n)`), generated...)
	}
	writes(t, "../../man/partition-monitor.8", regexp.MustCompile(`(?s)(\.Sh COMMANDS\n)(.*?)(\.Sh OPTIONS\n)`), ".Bl -tag -width Ds\n"+list.String()+".El\n")
	writes(t, "../../units/node-partition.default", regexp.MustCompile(`(?s)(explains them\.\n)(.*?)(#PARTITION_MONITOR_ARGS=)`), itemsOf(runCommand(host.This()), settingsItem))
}

// writes compares the parts of a file that a pattern finds with the wanted ones. With -update it
// writes those.
func writes(t *testing.T, path string, parts *regexp.Regexp, want ...string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	after := parts.ReplaceAllStringFunc(string(before), func(part string) string {
		match := parts.FindStringSubmatch(part)
		if n++; n > len(want) {
			return part
		}
		return match[1] + want[n-1] + match[3]
	})
	switch {
	case n != len(want):
		t.Errorf("%s has %d places for the options, want %d", path, n, len(want))
	case after == string(before):
	case *update:
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the commands: make generate writes it", path)
	}
}

// valueName is the name of a flag's value, in its line of help.
var valueName = regexp.MustCompile("`([A-Z]+)`")

// namesOf returns the sections NAME and SYNOPSIS of a command's page.
func namesOf(c *cli.Command, page string) string {
	what, _, _ := strings.Cut(c.Usage, ":")
	text := ".Nm " + page + "\n.Nd " + what + "\n.Sh SYNOPSIS\n.Nm partition-monitor\n.Cm " + c.Name + "\n"
	if len(c.Flags) > 0 {
		text += ".Op Ar options\n"
	}
	for _, argument := range strings.Fields(c.ArgsUsage) {
		if optional := strings.Trim(argument, "[]"); optional != argument {
			argument = "Op Ar " + optional
		} else {
			argument = "Ar " + argument
		}
		text += "." + argument + "\n"
	}
	return text
}

// itemsOf returns the items of a command's flags. Those of run have the text of node.Flags,
// the others their line of help. What a command has in common with run is one item.
func itemsOf(c *cli.Command, item func(names []string, f node.Flag, value, preset string) string) string {
	var list strings.Builder
	var shared []string
	for _, f := range c.Flags {
		help := f.(cli.DocGenerationFlag)
		described := node.Flag{Name: f.Names()[0], Text: help.GetUsage()}
		for _, of := range node.Flags {
			if c.Name == "run" && of.Name == described.Name {
				described = of
			}
		}
		if c.Name != "run" && described.Text == node.FlagUsage(described.Name) {
			shared = append(shared, "Fl -"+described.Name)
			continue
		}
		value, preset := "", ""
		if match := valueName.FindStringSubmatch(help.GetUsage()); match != nil {
			value = match[1]
		}
		if help.TakesValue() {
			preset = strings.ReplaceAll(strings.Trim(help.GetValue(), `"`), "m0s", "m")
		}
		list.WriteString(item(f.Names(), described, value, preset))
	}
	if len(shared) > 0 {
		list.WriteString(".It " + strings.Join(shared, " , ") + "\nThe default is that of the running service.\nSee\n.Xr partition-monitor-run 1 .\n")
	}
	return list.String()
}

// settingsItem returns a flag as a comment of a file of settings.
func settingsItem(_ []string, f node.Flag, value, preset string) string {
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

// manualItem returns a flag as an item of a list in mdoc(7).
func manualItem(names []string, f node.Flag, value, preset string) string {
	heads := make([]string, 0, len(names))
	for _, name := range names {
		head, between := "Fl "+name, " Ar "
		if len(name) > 1 {
			head, between = "Fl -"+name, " Ns = Ns Ar "
		}
		if value != "" {
			head += between + value
		}
		heads = append(heads, head)
	}
	sentences := f.Text
	if preset != "" {
		sentences = strings.TrimSuffix(sentences, ".") + ". The default is `" + preset + "`."
	}
	if f.Section != "" {
		sentences += " See `" + f.Section + "`."
	}
	return ".It " + strings.Join(heads, " , ") + "\n" + mdoc(sentences, f.Section) + "\n"
}

// flagName matches a flag in a line of help.
var flagName = regexp.MustCompile(`(^|[ (])(--[a-z.-]*[a-z])`)

// mdoc returns sentences in mdoc(7): each sentence and each macro begins a line. A line of help has
// neither a capital letter nor a full stop.
func mdoc(text, section string) string {
	text = flagName.ReplaceAllString(strings.ToUpper(text[:1])+text[1:], "$1`$2`")
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	var lines string
	for _, sentence := range strings.Split(strings.ReplaceAll(text, ". ", ".\n"), "\n") {
		end := 0
		for _, at := range word.FindAllStringSubmatchIndex(sentence, -1) {
			lines += plain(sentence[end:at[0]]) + "\n" + macro(sentence[at[2]:at[3]], section)
			for _, sign := range sentence[at[4]:at[5]] {
				lines += " " + string(sign)
			}
			end = at[1]
		}
		lines += plain(sentence[end:])
	}
	return strings.TrimPrefix(lines, "\n")
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
	case valueName.MatchString("`" + s + "`"):
		return ".Ar " + s
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
