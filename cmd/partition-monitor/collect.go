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
		Name:      "collect",
		ArgsUsage: "[FILE]",
		Usage:     "make a bundle for a bug report",
		Description: "It has what the programs say, and their own files. FILE is node-partition-TIME.tar.gz in the working " +
			"directory if it is not named, and - is the standard output. " + likeService,
		Flags: serviceFlags(),
		Action: func(c *cli.Context) error {
			names, err := arguments(c)
			if err != nil {
				return err
			}
			if len(names) > 1 {
				return usageError{errors.New("collect: want one FILE at most")}
			}
			applyServiceFlags(c, n)
			common, err := readOptions(c, n)
			if err != nil {
				return err
			}
			o := collect.Options{Options: common, Version: buildversion.String(), Args: node.ServiceArgs(n)}
			name := collect.Name(time.Now()) + ".tar.gz"
			if len(names) > 0 {
				name = names[0]
			}
			if name == "-" {
				return collect.Write(c.Context, c.App.Writer, o)
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
