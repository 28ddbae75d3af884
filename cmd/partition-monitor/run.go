package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/daemon"
	"nodepartition/internal/host"
	"nodepartition/internal/journallog"
	"nodepartition/internal/node/options"
)

func runCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "place pods, keep limits and weights in step, evict, and serve metrics; partition-monitor.service runs it",
		Flags: commonFlags(
			durationFlag(options.FlagTick, 30*time.Second),
			boolFlag(options.FlagPerPod),
			boolFlag(options.FlagHistory),
			boolFlag(options.FlagHistoryMembers),
			boolFlag(options.FlagDebug),
		),
		Action: func(c *cli.Context) error {
			common, err := readOptions(c, n)
			if err != nil {
				return err
			}
			if c.Duration(options.FlagTick) < time.Second {
				return usageError{fmt.Errorf("--%s=%s: want a second or more", options.FlagTick, c.Duration(options.FlagTick))}
			}
			level := slog.LevelInfo
			if c.Bool(options.FlagDebug) {
				level = slog.LevelDebug
			}
			return daemon.Run(c.Context, daemon.Options{
				Options: common,
				Tick:    c.Duration(options.FlagTick),
				PerPod:  c.Bool(options.FlagPerPod),
				History: c.Bool(options.FlagHistory) || c.Bool(options.FlagHistoryMembers),
				Version: version,
				Log:     journallog.New(os.Stderr, level),

				HistoryMembers: c.Bool(options.FlagHistoryMembers),
			})
		},
	}
}
