package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
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
	_, err := fmt.Fprintln(c.App.Writer, "partition-monitor", version)
	return err
}
