package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/output"
)

// usageError reports an invalid command line.
type usageError struct{ error }

// onUsageError returns an error of the package flag, with the option that is probably meant.
func onUsageError(c *cli.Context, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usageError{err}
	}
	flags := c.App.Flags
	if slices.Contains(c.App.Commands, c.Command) {
		flags = c.Command.Flags
	}
	if c.Command != nil && name == flagRoot {
		return rootRefused(c.Command.Name)
	}
	if name == "o" {
		name = flagOutput
	}
	if successor, ok := goneFlags[name]; ok {
		return usageError{fmt.Errorf("--%s is gone: %s", name, successor)}
	}
	if len(name) == 1 {
		return usageError{fmt.Errorf("unknown option -%s", name)}
	}
	err = fmt.Errorf("unknown option --%s", name)
	if near := cli.SuggestFlag(flags, name, false); strings.HasPrefix(near, "--") {
		err = fmt.Errorf("%w (is %s meant?)", err, near)
	}
	return usageError{err}
}

// goneValues has what replaces the values of --output that are gone.
var goneValues = map[string]string{
	"karpenter": "; docs/autoscalers.md says what to write for Karpenter",
	"text":      " (text is table now)",
}

// goneFlags has what replaces the flags that are gone.
var goneFlags = map[string]string{
	"history":         "what partitions use is always measured; remove it from PARTITION_MONITOR_ARGS",
	"history-members": "what partitions use is always measured; remove it from PARTITION_MONITOR_ARGS",
	"at-limit":        "compare with the limit and the figures of recommend",
	"without-leaks":   "recommend names what grows, and has no room for what it will add",
	"since":           "recommend counts all of thirty days",
	flagOutput:        "a command that shows nothing has no format; the file of a bundle is an argument: collect FILE",
	"dir":             "use --root with the files of the node, or --prometheus",
}

// printHelp writes the help of the library in lines of 80 columns.
func printHelp(w io.Writer, template string, data any) {
	var text bytes.Buffer
	cli.HelpPrinterCustom(&text, template, data, nil)
	for line := range strings.Lines(text.String()) {
		line = strings.TrimRight(line, " \n")
		fmt.Fprintln(w, output.Terminal{Width: output.Readable}.Wrap(line))
	}
}
