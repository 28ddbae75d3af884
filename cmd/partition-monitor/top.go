package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/command/status"
	"nodepartition/internal/command/top"
	"nodepartition/internal/host"
	"nodepartition/internal/node"
	"nodepartition/internal/samples"
	"nodepartition/internal/terminal"
)

const (
	flagInterval = "interval"
	flagCount    = "count"
)

func topCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:  "top",
		Usage: "show the partitions as they change, and with the keys left and right what the history has of them; lines where there is no terminal",
		Flags: commonFlags(
			&cli.DurationFlag{Name: flagInterval, Usage: "`TIME` between two readings", Value: 2 * time.Second},
			&cli.IntFlag{Name: flagCount, Usage: "`NUMBER` of readings, in lines; 0 for no end"},
			dirFlag(),
		),
		Action: func(c *cli.Context) error {
			const least = 100 * time.Millisecond
			interval, count := c.Duration(flagInterval), c.Int(flagCount)
			if interval < least {
				return usageError{fmt.Errorf("--%s=%s: want %s or more", flagInterval, interval, least)}
			}
			if count < 0 {
				return usageError{fmt.Errorf("--%s=%d: want 0 or more", flagCount, count)}
			}
			applyServiceFlags(c, n)
			common, err := readOptions(c, n)
			if err != nil {
				return err
			}
			dir := historyDir(c, n)
			source := top.Source{
				Interval: interval,
				Status:   func(ctx context.Context) (status.Status, error) { return status.Read(ctx, common) },
				History:  func(ctx context.Context) (samples.History, error) { return node.ReadHistories(ctx, dir) },
			}
			if c.IsSet(flagCount) || !terminal.Of(os.Stdin).Moves || !terminal.Of(c.App.Writer).Moves {
				return top.Plain(c.Context, source, c.App.Writer, count)
			}
			return top.Screen(c.Context, source, os.Stdin, c.App.Writer)
		},
	}
}
