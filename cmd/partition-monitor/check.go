package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/check"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/state"
)

const (
	flagIgnore  = "ignore"
	flagVerbose = "verbose"
)

func checkCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:        "check",
		Usage:       "find what is wrong with the configuration and the node",
		Description: "The exit status is 1 if something is wrong. " + likeService,
		Flags: serviceFlags(
			tableFlag(),
			&cli.BoolFlag{
				Name: flagVerbose, Aliases: []string{"v"}, DisableDefaultText: true,
				Usage: "also what is well or ignored, and files that were not read",
			},
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
			ignored := c.StringSlice(flagIgnore)
			for _, name := range ignored {
				if names := check.Names(); !slices.Contains(names, name) {
					return usageError{fmt.Errorf("--%s=%s: want %s", flagIgnore, name, alternatives(names))}
				}
			}
			found := check.Node(c.Context, common, ignored)
			if err := writer(c, check.Text(c.Bool(flagVerbose)))(c.App.Writer, found); err != nil {
				return err
			}
			if slices.ContainsFunc(found.Findings, func(f state.Finding) bool { return f.Grade == state.Error }) {
				return problemsFound{}
			}
			return nil
		},
	}
}

// problemsFound makes the exit status 1. The findings have been shown.
type problemsFound struct{}

func (problemsFound) Error() string { return "problems were found" }
