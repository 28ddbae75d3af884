package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/output"
)

// flagOutput selects the format of a command that shows something.
const flagOutput = "output"

// formatFlag returns the flag for the formats of a command. The first is the default.
func formatFlag(formats ...string) cli.Flag {
	f := choiceFlag(flagOutput, "`FORMAT`: "+alternatives(formats), formats...)
	f.Aliases = []string{"o"}
	return f
}

// tableFlag returns the flag of a command that shows a table, or the fields of it for scripts.
func tableFlag() cli.Flag { return formatFlag("table", "json", "yaml") }

// writer returns what writes in the format of the flag; people is for the default.
func writer[T any](c *cli.Context, people func(io.Writer, T) error) func(io.Writer, T) error {
	switch c.String(flagOutput) {
	case "json":
		return output.JSON[T]
	case "yaml":
		return output.YAML[T]
	}
	return people
}

// choice is a flag with a closed list of values, which shells complete.
type choice struct {
	*cli.StringFlag
	values []string
}

// choiceFlag returns a flag that takes one of some values. The first is the default.
func choiceFlag(name, usage string, values ...string) choice {
	f := &cli.StringFlag{Name: name, Usage: usage, Value: values[0]}
	f.Action = func(_ *cli.Context, value string) error {
		if !slices.Contains(values, value) {
			return usageError{fmt.Errorf("--%s=%s: want %s%s", name, value, alternatives(values), goneValues[value])}
		}
		return nil
	}
	return choice{f, values}
}

// alternatives returns names for people, such as a, b or c.
func alternatives(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
