package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/plan"
)

const (
	flagCapacity = "capacity"
	flagConfig   = "config"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name: "plan",
		Usage: "show the memory and CPU budget of the node: reservations, Node Allocatable, the partition, " +
			"and the remainder for user pods",
		Flags: []cli.Flag{
			podsAPIFlag(),
			&cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Usage: "table, json or yaml", Value: "table"},
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
			applyServiceFlags(c, cgroupfs.Mount, "/proc")
			write := plan.WriteTable
			switch c.String(flagOutput) {
			case "table":
			case "json":
				write = plan.WriteJSON
			case "yaml":
				write = plan.WriteYAML
			default:
				return usageError{fmt.Errorf("--%s=%s: want table, json or yaml", flagOutput, c.String(flagOutput))}
			}
			o := plan.Options{Files: c.StringSlice(flagConfig), PodsAPI: c.String(flagPods)}
			if c.IsSet(flagCapacity) {
				var err error
				if o.Capacity, err = plan.ParseCapacity(c.String(flagCapacity)); err != nil {
					return usageError{fmt.Errorf("--%s=%s: %w", flagCapacity, c.String(flagCapacity), err)}
				}
			}
			found, err := plan.Read(c.Context, o)
			if err != nil {
				return err
			}
			if err := write(c.App.Writer, found); err != nil {
				return err
			}
			return found.Invalid
		},
	}
}
