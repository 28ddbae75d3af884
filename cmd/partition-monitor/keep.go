package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/try"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
)

func keepCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:        "keep",
		Usage:       "make the present trial permanent",
		Description: "It writes the section to " + kubeletconfig.OverridePath + ", and stops the timer.",
		Action: func(c *cli.Context) error {
			if err := try.Keep(c.Context, n); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.App.Writer, "Kept in "+kubeletconfig.OverridePath+".")
			return err
		},
	}
}
