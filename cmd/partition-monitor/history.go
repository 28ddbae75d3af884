package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/command/history"
	"nodepartition/internal/host"
	"nodepartition/internal/node"
	"nodepartition/internal/unitname"
)

const (
	flagSince   = "since"
	flagUntil   = "until"
	flagAt      = "at"
	flagDir     = "dir"
	flagAtLimit = "at-limit"
	flagWithout = "without-leaks"
	flagForce   = "force"
	flagOf      = "partition"
)

// partitionFlag returns the flag for the partition of a history.
func partitionFlag() cli.Flag {
	return &cli.StringFlag{Name: flagOf, Usage: "`NAME` of the partition (default: the system partition)"}
}

// dirFlag returns the flag for the folder of a history.
func dirFlag() cli.Flag {
	return &cli.StringFlag{Name: flagDir, Usage: "`FOLDER` of the history, such as a copy from another node", Value: node.HistoryDir}
}

// historyDir returns the folder of the flag. Without the flag it returns the folder of the node n.
func historyDir(c *cli.Context, n host.Node) string {
	if !c.IsSet(flagDir) {
		return n.Path(node.HistoryDir)
	}
	return c.String(flagDir)
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

func historyCommand(n host.Node) *cli.Command {
	const shown = 6 * time.Hour
	outputs := formats[history.View]{{"table", history.WriteTable}, {"json", history.WriteJSON}}
	return &cli.Command{
		Name:  "history",
		Usage: "show what the partition and the services of the node have used, from the history of run --history",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagSince, Usage: "the first `TIME`: 2h, 3d, 03:12 or \"2026-11-20 03:12\" (default: 6h)"},
			&cli.StringFlag{Name: flagUntil, Usage: "the last `TIME` (default: now)"},
			&cli.StringFlag{Name: flagAt, Usage: "a `TIME` to show by the minute, with the pods if they are recorded"},
			partitionFlag(),
			outputs.flag(),
			dirFlag(),
		},
		Action: func(c *cli.Context) error {
			now := time.Now()
			n, err := nodeOf(c, n)
			if err != nil {
				return err
			}
			if n.Foreign && c.IsSet(flagDir) {
				return usageError{fmt.Errorf("--%s: want no --%s beside it", flagRoot, flagDir)}
			}
			o := history.Options{Dir: historyDir(c, n), Partition: unitname.PartitionName(c.String(flagOf))}
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
