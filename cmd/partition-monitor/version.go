package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/buildversion"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:   "version",
		Usage:  "show the version",
		Action: showVersion,
	}
}

const flagVersion = "version"

func showVersion(c *cli.Context) error {
	_, err := fmt.Fprintln(c.App.Writer, "partition-monitor", buildversion.String())
	return err
}
