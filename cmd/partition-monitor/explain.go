package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/explain"
)

func explainCommand() *cli.Command {
	return &cli.Command{
		Name:        "explain",
		ArgsUsage:   "NAME",
		Usage:       "explain a check, a reason of status, or the messages of a command",
		Description: "NAME is " + alternatives(explain.Names()) + ", or a reason that status shows of a pod.",
		Action: func(c *cli.Context) error {
			names, err := arguments(c)
			if err != nil {
				return err
			}
			if len(names) == 1 && explain.Known(names[0]) {
				return explain.Write(c.App.Writer, names[0])
			}
			return usageError{fmt.Errorf("explain: want one of %s", alternatives(explain.Names()))}
		},
	}
}
