package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/status"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show which pods are in which partition, and why not in the other; reads the node itself and works without the service",
		Flags: commonFlags(&cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Usage: "table or json", Value: "table"}),
		Action: func(c *cli.Context) error {
			applyServiceFlags(c, cgroupfs.Mount, "/proc")
			write := status.WriteTable
			switch c.String(flagOutput) {
			case "table":
			case "json":
				write = status.WriteJSON
			default:
				return usageError{fmt.Errorf("--%s=%s: want table or json", flagOutput, c.String(flagOutput))}
			}
			common, err := readOptions(c)
			if err != nil {
				return err
			}
			found, err := status.Read(c.Context, common)
			if err != nil {
				return err
			}
			return write(c.App.Writer, found)
		},
	}
}
