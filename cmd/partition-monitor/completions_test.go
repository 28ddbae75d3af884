package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/check"
	"node-partition.io/node-partition/internal/command/explain"
	"node-partition.io/node-partition/internal/host"
)

// TestCompletionsAreWritten: the completions in deploy have each command and each option. "make
// generate" writes them. They contain the words and do not run the program: the library's scripts
// for bash and zsh evaluate the command line that is being typed.
func TestCompletionsAreWritten(t *testing.T) {
	commands.Lock()
	defer commands.Unlock()
	app := newApp(host.This(), io.Discard, io.Discard)
	app.Setup()
	// The library has one command help for all programs of a process. After some runs that is among
	// its own subcommands, which ToFishCompletion follows without end (v2.27.7).
	app.Command("help").Subcommands = nil
	fish, err := app.ToFishCompletion()
	if err != nil {
		t.Fatal(err)
	}
	levels := levelsOf(app.Name, app.VisibleFlags(), app.VisibleCommands())
	for _, l := range levels {
		from := " '__fish_seen_subcommand_from " + l.name() + "' -f "
		for _, v := range l.values {
			if long, ok := strings.CutPrefix(v.word, "--"); ok {
				fish = strings.Replace(fish, from+"-l "+long, from+"-a '"+v.text+"' -l "+long, 1)
			}
		}
		if words := wordsOf[l.name()]; words != nil {
			fish += "complete -c partition-monitor -n" + from + "-a '" + strings.Join(words, " ") + "'\n"
		}
	}
	for name, want := range map[string]string{
		"partition-monitor.bash": bashCompletion(levels),
		"_partition-monitor":     zshCompletion(levels),
		"partition-monitor.fish": fish,
	} {
		path := "../../deploy/completions/" + name
		got, err := os.ReadFile(path)
		switch {
		case err == nil && string(got) == want:
		case *update:
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s differs from the commands, %v: make generate writes it", path, err)
		}
	}
}

// described is a word that a shell completes, with its description.
type described struct{ word, text string }

// level is a command with the words that may follow it.
type level struct {
	// path has the names of the command and of those above it.
	path              string
	options, commands []described
	// values has the closed lists of the options' values.
	values []described
}

// name returns the name of the command.
func (l level) name() string { return l.path[strings.LastIndex(l.path, " ")+1:] }

// wordsOf has the closed lists of the commands' arguments.
var wordsOf = map[string][]string{"render": renderingNames(), "explain": explain.Names()}

// levelsOf returns the levels of a command and of all below it.
func levelsOf(path string, flags []cli.Flag, commands []*cli.Command) []level {
	l := level{path: path}
	for _, f := range flags {
		usage := strings.ReplaceAll(f.(cli.DocGenerationFlag).GetUsage(), "`", "")
		for _, name := range f.Names() {
			option := strings.Repeat("-", min(len(name), 2)) + name
			if len(name) > 1 {
				l.options = append(l.options, described{option, usage})
			}
			if of, ok := f.(choice); ok {
				l.values = append(l.values, described{option, strings.Join(of.values, " ")})
			}
			if name == flagIgnore {
				l.values = append(l.values, described{option, strings.Join(check.Names(), " ")})
			}
		}
	}
	for _, argument := range wordsOf[l.name()] {
		l.commands = append(l.commands, described{argument, ""})
	}
	if !strings.Contains(fmt.Sprint(l.options), "--help") {
		l.options = append(l.options, described{"--help", "show help"})
	}
	levels := []level{l}
	for _, c := range commands {
		if c.Name == "help" {
			continue
		}
		levels[0].commands = append(levels[0].commands, described{c.Name, c.Usage})
		levels = append(levels, levelsOf(path+" "+c.Name, c.VisibleFlags(), c.VisibleCommands())...)
	}
	return levels
}

// steps returns the branches of a shell's case that follow the command line from level to level.
func steps(levels []level, variable string) string {
	var text strings.Builder
	for _, l := range levels[1:] {
		fmt.Fprintf(&text, "\t\t'%s') %s='%s' ;;\n", l.path, variable, l.path)
	}
	return text.String()
}

// bashCompletion returns the completions for bash.
func bashCompletion(levels []level) string {
	words := func(list []described) string {
		names := make([]string, 0, len(list))
		for _, d := range list {
			names = append(names, d.word)
		}
		return strings.Join(names, " ")
	}
	var text strings.Builder
	text.WriteString(`# shellcheck shell=bash
# Completions of partition-monitor for bash. Written by make generate.

_partition_monitor() {
	local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} at=partition-monitor word words=
	# --option=value is three words.
	[[ $cur != '=' ]] || cur=
	[[ $before != '=' ]] || before=${COMP_WORDS[COMP_CWORD-2]}
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case "$at $word" in
` + steps(levels, "at") + `		esac
	done
	case "$at $before" in
`)
	for _, l := range levels {
		for _, v := range l.values {
			fmt.Fprintf(&text, "\t'%s %s') words='%s' ;;\n", l.path, v.word, v.text)
		}
	}
	text.WriteString(`	*)
		case "$at $cur" in
`)
	// The pattern of a command matches those below it, too.
	for _, l := range slices.Backward(levels) {
		fmt.Fprintf(&text, "\t\t'%s -'*) words='%s' ;;\n", l.path, words(l.options))
		fmt.Fprintf(&text, "\t\t'%s '*) words='%s' ;;\n", l.path, words(l.commands))
	}
	text.WriteString(`		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -o default -F _partition_monitor partition-monitor
`)
	return text.String()
}

// zshCompletion returns the completions for zsh.
func zshCompletion(levels []level) string {
	list := func(list []described) string {
		var text strings.Builder
		for _, d := range list {
			fmt.Fprintf(&text, "\t\t'%s:%s'\n", d.word, strings.NewReplacer("'", `'\''`, ":", `\:`).Replace(d.text))
		}
		return text.String()
	}
	var text strings.Builder
	text.WriteString(`#compdef partition-monitor
# Completions of partition-monitor for zsh. Written by make generate.

local at=partition-monitor word before=${words[CURRENT-1]}
local -a options commands
for word in "${(@)words[2,CURRENT-1]}"; do
	case "$at $word" in
` + steps(levels, "at") + `	esac
done
if [[ ${words[CURRENT]} == --*=* ]]; then
	before=${words[CURRENT]%%=*}
	compset -P '*='
fi
case "$at $before" in
`)
	for _, l := range levels {
		for _, v := range l.values {
			fmt.Fprintf(&text, "'%s %s') compadd -- %s; return ;;\n", l.path, v.word, v.text)
		}
	}
	text.WriteString(`esac
case $at in
`)
	for _, l := range levels {
		fmt.Fprintf(&text, "'%s')\n\toptions=(\n%s\t)\n", l.path, list(l.options))
		if len(l.commands) > 0 {
			fmt.Fprintf(&text, "\tcommands=(\n%s\t)\n", list(l.commands))
		}
		text.WriteString("\t;;\n")
	}
	text.WriteString(`esac
if [[ ${words[CURRENT]} == -* ]]; then
	_describe -o option options
elif (( ${#commands} )); then
	_describe command commands
else
	_files
fi
`)
	return text.String()
}
