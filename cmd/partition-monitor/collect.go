package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/buildversion"
	"node-partition.io/node-partition/internal/command/collect"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
)

func collectCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:  "collect",
		Usage: "make a bundle for a bug report: what the programs say, and their own files",
		Flags: commonFlags(&cli.StringFlag{
			Name: flagOutput, Aliases: []string{"o"},
			Usage: "`FILE` to make, or - for the standard output (default: node-partition-TIME.tar.gz in the working directory)",
		}),
		Action: func(c *cli.Context) error {
			applyServiceFlags(c, n)
			common, err := readOptions(c, n)
			if err != nil {
				return err
			}
			o := collect.Options{Options: common, Version: buildversion.String(), Args: node.ServiceArgs(n)}
			name := c.String(flagOutput)
			if name == "-" {
				return collect.Write(c.Context, c.App.Writer, o)
			}
			if name == "" {
				name = collect.Name(time.Now()) + ".tar.gz"
			}
			// O_EXCL follows no link that another user has made in a shared folder.
			file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			if err := errors.Join(collect.Write(c.Context, file, o), file.Close()); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", name, err), os.Remove(name))
			}
			_, err = fmt.Fprintln(c.App.Writer, name)
			return err
		},
	}
}
