package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/plan"
	"node-partition.io/node-partition/internal/command/validate"
	"node-partition.io/node-partition/internal/host"
)

const flagStrict = "strict"

func validateCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		ArgsUsage: "FILE",
		Usage:     "judge a configuration as the generator would, on any machine",
		Description: "FILE is a node-partition.yaml, a NodePartition or a kubelet's configuration, and - is standard input. " +
			"The exit status is 1 if it would be refused, and 2 if it cannot be read.",
		Flags: []cli.Flag{
			tableFlag(),
			&cli.StringFlag{
				Name: flagCapacity,
				Usage: "judge it for a node of this `CAPACITY`, such as cpu=16,memory=32Gi; without it, what depends on the " +
					"size of the node is left out",
			},
			&cli.BoolFlag{Name: flagStrict, Usage: "a warning, such as one of a misspelt field, is an error", DisableDefaultText: true},
		},
		Action: func(c *cli.Context) error {
			files, err := arguments(c)
			if err != nil {
				return err
			}
			if len(files) != 1 {
				return usageError{errors.New("validate: want one FILE, or - for standard input")}
			}
			var o validate.Options
			if c.IsSet(flagCapacity) {
				capacity, err := plan.ParseCapacity(c.String(flagCapacity))
				if err != nil {
					return usageError{fmt.Errorf("--%s=%s: %w", flagCapacity, c.String(flagCapacity), err)}
				}
				o.Size = capacity.Size
			}
			if _, given := givenRoot(c); given {
				if c.IsSet(flagCapacity) {
					return usageError{fmt.Errorf("validate: want one of --%s and --%s", flagCapacity, flagRoot)}
				}
				of, err := nodeOf(c, n)
				if err != nil {
					return err
				}
				o.Node = &of
			}
			if o.Name, o.Data, err = readInput(c.App.Reader, files[0], maxSection); err != nil {
				return unreadable{err}
			}
			o.Strict = c.Bool(flagStrict)
			found, err := validate.File(o)
			if err != nil {
				return unreadable{err}
			}
			if err := writer(c, validate.WriteTable)(c.App.Writer, found); err != nil {
				return err
			}
			if !found.Valid {
				return problemsFound{}
			}
			return nil
		},
	}
}
