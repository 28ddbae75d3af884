package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/plan"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
)

const (
	flagCapacity = "capacity"
	flagConfig   = "config"
)

func planCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:  "plan",
		Usage: "show what reservations and partitions leave for user pods",
		Flags: []cli.Flag{
			podsAPIFlag(),
			tableFlag(),
			&cli.StringFlag{
				Name: flagCapacity,
				Usage: "plan another node of this `CAPACITY`, such as cpu=16,memory=32Gi,storage=100Gi, " +
					"and read no state of this one",
			},
			&cli.StringSliceFlag{
				Name: flagConfig,
				Usage: "`FILE` to use in place of the kubelet's configuration and command line; " +
					"more than once: later ones are merged over the first",
			},
		},
		Action: func(c *cli.Context) error {
			n, err := nodeOf(c, n)
			if err != nil {
				return err
			}
			applyServiceFlags(c, n)
			o := plan.Options{Node: n, Files: c.StringSlice(flagConfig), PodsAPI: n.Path(c.String(node.FlagPods))}
			if c.IsSet(flagCapacity) {
				if o.Capacity, err = plan.ParseCapacity(c.String(flagCapacity)); err != nil {
					return usageError{fmt.Errorf("--%s=%s: %w", flagCapacity, c.String(flagCapacity), err)}
				}
			}
			found, err := plan.Read(c.Context, o)
			if err != nil {
				return err
			}
			if err := writer(c, plan.WriteTable)(c.App.Writer, found); err != nil {
				return err
			}
			return found.Invalid
		},
	}
}
