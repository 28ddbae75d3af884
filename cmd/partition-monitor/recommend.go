package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/command/recommend"
	"nodepartition/internal/host"
	"nodepartition/internal/node/options"
	"nodepartition/internal/oneline"
	"nodepartition/internal/quantity"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

func recommendCommand(n host.Node) *cli.Command {
	outputs := formats[recommend.Advice]{{"yaml", recommend.WriteYAML}, {"json", recommend.WriteJSON}}
	return &cli.Command{
		Name: "recommend",
		Usage: "compute memoryLimit, evictionHard, kubeReserved and systemReserved from the history of run --history, " +
			"as a section for try",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagAtLimit, Usage: "show, too, which pods would have been evicted at this `LIMIT`, such as 1Gi"},
			&cli.StringFlag{Name: flagSince, Usage: "the first `TIME` that counts, such as 3d or 2026-11-20 (default: all)"},
			&cli.BoolFlag{
				Name:  flagWithout,
				Usage: "take the limit without what leaks have added, even if more is in use and is evicted at once",
			},
			&cli.BoolFlag{Name: flagForce, Usage: "write a section even if the history is too short for one, or the limit not to be applied"},
			&cli.StringFlag{
				Name: options.FlagProtected, Usage: "`PODS` that are never evicted, as for run",
				Value: evict.DefaultProtected.String(),
			},
			partitionFlag(),
			outputs.flag(),
			dirFlag(),
		},
		Action: func(c *cli.Context) error {
			applyServiceFlags(c, n)
			o := recommend.Options{
				Node: n, Dir: historyDir(c, n), Partition: unitname.PartitionName(c.String(flagOf)),
				Now: time.Now(), WithoutLeaks: c.Bool(flagWithout), Force: c.Bool(flagForce),
			}
			var err error
			if o.Since, err = timeFlag(c, flagSince, o.Now, time.Time{}); err != nil {
				return err
			}
			if o.Protected, err = evict.ParseProtected(c.String(options.FlagProtected)); err != nil {
				return usageError{fmt.Errorf("--%s=%w", options.FlagProtected, err)}
			}
			if c.IsSet(flagAtLimit) {
				limit, err := quantity.Parse(c.String(flagAtLimit))
				if err != nil || limit.Value() <= 0 {
					return usageError{fmt.Errorf("--%s=%s: want a quantity such as 1Gi", flagAtLimit, c.String(flagAtLimit))}
				}
				o.AtLimit = uint64(limit.Value())
			}
			write, err := outputs.writer(c)
			if err != nil {
				return err
			}
			found, err := recommend.Read(c.Context, o)
			if err != nil {
				return err
			}
			if err := write(c.App.Writer, found); err != nil {
				return err
			}
			// The pipe to try takes the comments: whoever sits in front of it has to see them, too.
			for _, warning := range found.Warnings {
				fmt.Fprintf(c.App.ErrWriter, "partition-monitor: warning: %s\n", oneline.Terminal(warning))
			}
			return found.Verdict()
		},
	}
}
