package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/status"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/state"
)

func statusCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:        "status",
		Usage:       "show each partition, its pods, and who is evicted next",
		Description: "It reads the node itself, and works without the service. " + likeService,
		Flags: serviceFlags(
			tableFlag(),
			&cli.BoolFlag{Name: flagAll, Usage: "also the pods that have to do with no partition", DisableDefaultText: true},
			&cli.BoolFlag{Name: flagWait, Usage: "wait until the partition is active and the service ready", DisableDefaultText: true},
			&cli.DurationFlag{Name: flagTimeout, Usage: "longest `TIME` to wait; 0 for no limit"},
			&cli.BoolFlag{
				Name: flagWatch, Aliases: []string{"w"}, DisableDefaultText: true,
				Usage: "show it again every two seconds, on a terminal in place of what was shown before",
			},
		),
		Action: func(c *cli.Context) error {
			n, err := nodeOf(c, n)
			if err != nil {
				return err
			}
			applyServiceFlags(c, n)
			table := status.Table(c.Bool(flagAll))
			if c.Bool(flagWatch) {
				table = status.Watched(table)
			}
			write := writer(c, table)
			common, err := readOptions(c, n)
			if err != nil {
				return err
			}
			if err := await(c, n, common); err != nil {
				return err
			}
			if c.Bool(flagWatch) {
				read := func(ctx context.Context) (state.Status, error) { return status.Read(ctx, common) }
				return status.Watch(c.Context, c.App.Writer, read, write)
			}
			found, err := status.Read(c.Context, common)
			if err != nil {
				return err
			}
			if err := write(c.App.Writer, found); err != nil {
				return err
			}
			if found.PodsUnknown != "" {
				return problemsFound{} // it is shown
			}
			return nil
		},
	}
}

// The flags of status alone.
const (
	flagWait    = "wait"
	flagTimeout = "timeout"
	flagWatch   = "watch"
	flagAll     = "all"
)

// await waits as the flags say.
func await(c *cli.Context, n host.Node, o node.Options) error {
	timeout := c.Duration(flagTimeout)
	switch {
	case timeout < 0:
		return usageError{fmt.Errorf("--%s=%s: want 0 or more", flagTimeout, timeout)}
	case !c.Bool(flagWait) && timeout > 0:
		return usageError{fmt.Errorf("--%s: want it with --%s", flagTimeout, flagWait)}
	case c.Bool(flagWait) && n.Foreign:
		return usageError{fmt.Errorf("--%s: cannot be used with --%s", flagWait, flagRoot)}
	case !c.Bool(flagWait):
		return nil
	}
	return status.Await(c.Context, o, n.Path(node.ControlSocket), timeout)
}
