package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/check"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/state"
)

const flagIgnore = "ignore"

func checkCommand(n host.Node) *cli.Command {
	outputs := formats[[]state.Finding]{{"text", check.WriteText}, {"json", check.WriteJSON}}
	return &cli.Command{
		Name:  "check",
		Usage: "check the configuration and the node: what is wrong and what to change; exit status 1 if something is wrong",
		Flags: commonFlags(
			outputs.flag(),
			&cli.StringSliceFlag{
				Name:  flagIgnore,
				Usage: "`NAME` of a check whose errors and warnings do not count; more than once, or a list",
			},
		),
		Action: func(c *cli.Context) error {
			n, err := nodeOf(c, n)
			if err != nil {
				return err
			}
			applyServiceFlags(c, n)
			common, err := readOptions(c, n)
			if err != nil {
				return err
			}
			write, err := outputs.writer(c)
			if err != nil {
				return err
			}
			ignored := c.StringSlice(flagIgnore)
			for _, name := range ignored {
				if names := check.Names(); !slices.Contains(names, name) {
					return usageError{fmt.Errorf("--%s=%s: want one of %s", flagIgnore, name, strings.Join(names, ", "))}
				}
			}
			found := check.Node(c.Context, common, ignored)
			if err := write(c.App.Writer, found); err != nil {
				return err
			}
			if slices.ContainsFunc(found, func(f state.Finding) bool { return f.Grade == state.Error }) {
				return problemsFound{}
			}
			return nil
		},
	}
}

// problemsFound makes the exit status 1. The findings have been shown.
type problemsFound struct{}

func (problemsFound) Error() string { return "problems were found" }
