package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/advice"
	"nodepartition/internal/monitor/history"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/monitor/recorder"
	"nodepartition/internal/oneline"
	"nodepartition/internal/quantity"
	"nodepartition/pkg/evict"
)

const (
	flagSince   = "since"
	flagUntil   = "until"
	flagAt      = "at"
	flagDir     = "dir"
	flagAtLimit = "at-limit"
	flagWithout = "without-leaks"
	flagForce   = "force"
)

// dirFlag returns the flag for the folder of a history.
func dirFlag() cli.Flag {
	return &cli.StringFlag{Name: flagDir, Usage: "`FOLDER` of the history, such as a copy from another node", Value: recorder.Dir}
}

// timeFlag parses a flag with a time. It returns or if the flag is not set.
func timeFlag(c *cli.Context, name string, now, or time.Time) (time.Time, error) {
	if !c.IsSet(name) {
		return or, nil
	}
	t, err := history.ParseTime(c.String(name), now)
	if err != nil {
		return t, usageError{fmt.Errorf("--%s=%s: %w", name, c.String(name), err)}
	}
	return t, nil
}

func historyCommand() *cli.Command {
	const shown = 6 * time.Hour
	outputs := formats[history.View]{{"table", history.WriteTable}, {"json", history.WriteJSON}}
	return &cli.Command{
		Name:  "history",
		Usage: "show what the partition and the services of the node have used, from the history of run --history",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagSince, Usage: "the first `TIME`: 2h, 3d, 03:12 or \"2026-11-20 03:12\" (default: 6h)"},
			&cli.StringFlag{Name: flagUntil, Usage: "the last `TIME` (default: now)"},
			&cli.StringFlag{Name: flagAt, Usage: "a `TIME` to show by the minute, with the pods if they are recorded"},
			outputs.flag(),
			dirFlag(),
		},
		Action: func(c *cli.Context) error {
			now := time.Now()
			o := history.Options{Dir: c.String(flagDir)}
			var err error
			if o.Until, err = timeFlag(c, flagUntil, now, now); err != nil {
				return err
			}
			if o.Since, err = timeFlag(c, flagSince, now, o.Until.Add(-shown)); err != nil {
				return err
			}
			if o.At, err = timeFlag(c, flagAt, now, time.Time{}); err != nil {
				return err
			}
			if c.IsSet(flagAt) && (c.IsSet(flagSince) || c.IsSet(flagUntil)) {
				return usageError{fmt.Errorf("--%s: want neither --%s nor --%s beside it", flagAt, flagSince, flagUntil)}
			}
			if o.Until.Before(o.Since) {
				return usageError{fmt.Errorf("--%s is after --%s", flagSince, flagUntil)}
			}
			write, err := outputs.writer(c)
			if err != nil {
				return err
			}
			view, err := history.Read(c.Context, o)
			if err != nil {
				return err
			}
			return write(c.App.Writer, view)
		},
	}
}

func recommendCommand() *cli.Command {
	outputs := formats[advice.Advice]{{"yaml", advice.WriteYAML}, {"json", advice.WriteJSON}}
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
			outputs.flag(),
			dirFlag(),
		},
		Action: func(c *cli.Context) error {
			applyServiceFlags(c, cgroupfs.Mount, "/proc")
			o := advice.Options{
				Dir: c.String(flagDir), Now: time.Now(), WithoutLeaks: c.Bool(flagWithout), Force: c.Bool(flagForce),
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
			found, err := advice.Read(c.Context, o)
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
