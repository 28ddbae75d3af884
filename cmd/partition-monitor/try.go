package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/try"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/text"
)

const (
	flagFor = "for"
	flagEnd = "end"
)

func tryCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:      "try",
		ArgsUsage: "FILE",
		Usage:     "apply a section for a time",
		Description: "It is that of FILE, and - is standard input. The node goes back when the time is over, after a reboot, " +
			"or with --end, unless keep makes the section permanent before.",
		Flags: []cli.Flag{
			&cli.DurationFlag{
				Name:  flagFor,
				Usage: "`TIME` until the node goes back by itself",
				Value: 10 * time.Minute,
			},
			&cli.BoolFlag{Name: flagForce, Usage: "try a limit below what the partition uses now, too: pods are evicted at once"},
			&cli.BoolFlag{Name: flagEnd, Usage: "end the trial that runs, and go back at once"},
		},
		Action: func(c *cli.Context) error {
			files, err := arguments(c)
			if err != nil {
				return err
			}
			if c.Bool(flagEnd) {
				if len(files) > 0 || c.IsSet(flagFor) || c.IsSet(flagForce) {
					return usageError{fmt.Errorf("try --%s: takes neither a FILE nor --%s and --%s", flagEnd, flagFor, flagForce)}
				}
				if err := try.End(c.Context, n); err != nil {
					return err
				}
				_, err := fmt.Fprintln(c.App.Writer, "The trial has ended, and the previous configuration is applied.")
				return err
			}
			if len(files) != 1 {
				return usageError{errors.New("try: want one FILE, or - for standard input")}
			}
			if d := c.Duration(flagFor); d < time.Second {
				return usageError{fmt.Errorf("--%s=%s: want a second or more", flagFor, d)}
			}
			return startCommand(c, n, files[0])
		},
	}
}

func startCommand(c *cli.Context, n host.Node, file string) error {
	from, data, err := readInput(c.App.Reader, file, maxSection)
	if err != nil {
		return err
	}
	running, warnings, err := try.Start(c.Context, n, from, data, c.Duration(flagFor), c.Bool(flagForce))
	for _, warning := range warnings {
		fmt.Fprintf(c.App.ErrWriter, "partition-monitor: warning: %s\n", warning)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, `%s is tried until %s. Then the node goes back by itself.
partition-monitor status --wait   shows its effect
partition-monitor keep            keeps it, in %s
partition-monitor try --end       goes back at once
`, text.Terminal(running.From), running.Until.Format(node.TimeOfDay), kubeletconfig.OverridePath)
	return err
}
