package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/control"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/monitor/status"
)

func statusCommand() *cli.Command {
	outputs := formats[status.Status]{{"table", status.WriteTable}, {"json", status.WriteJSON}}
	return &cli.Command{
		Name:  "status",
		Usage: "show which pods are in which partition, and why not in the other; reads the node itself and works without the service",
		Flags: commonFlags(
			outputs.flag(),
			&cli.BoolFlag{Name: flagWait, Usage: "wait until the partition is active and the service ready"},
			&cli.DurationFlag{Name: flagTimeout, Usage: "longest time to wait; 0 for no limit"},
		),
		Action: func(c *cli.Context) error {
			applyServiceFlags(c, cgroupfs.Mount, "/proc")
			write, err := outputs.writer(c)
			if err != nil {
				return err
			}
			common, err := readOptions(c)
			if err != nil {
				return err
			}
			if err := await(c, common); err != nil {
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

// The flags of status alone.
const (
	flagWait    = "wait"
	flagTimeout = "timeout"
)

// await waits as the flags say.
func await(c *cli.Context, o options.Options) error {
	timeout := c.Duration(flagTimeout)
	switch {
	case timeout < 0:
		return usageError{fmt.Errorf("--%s=%s: want 0 or more", flagTimeout, timeout)}
	case !c.Bool(flagWait) && timeout > 0:
		return usageError{fmt.Errorf("--%s: want it with --%s", flagTimeout, flagWait)}
	case !c.Bool(flagWait):
		return nil
	}
	return status.Await(c.Context, o, control.Socket, timeout)
}
