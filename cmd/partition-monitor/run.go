package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/journallog"
	"nodepartition/internal/monitor/daemon"
)

// The flags of the history.
const (
	flagHistory        = "history"
	flagHistoryMembers = "history-members"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "place pods, keep limits and weights in step, evict, and serve metrics; partition-monitor.service runs it",
		Flags: commonFlags(
			&cli.DurationFlag{Name: "tick", Usage: "longest time between two passes over the node", Value: 30 * time.Second},
			&cli.BoolFlag{Name: "per-pod-metrics", Usage: "serve series for each pod too"},
			&cli.BoolFlag{Name: flagHistory, Usage: "keep a history of what the partition and the services of the node use"},
			&cli.BoolFlag{Name: flagHistoryMembers, Usage: "keep it with the pods of the partition, too"},
			&cli.BoolFlag{Name: "debug", Usage: "log more"},
		),
		Action: func(c *cli.Context) error {
			common, err := readOptions(c)
			if err != nil {
				return err
			}
			if c.Duration("tick") < time.Second {
				return usageError{fmt.Errorf("--tick=%s: want a second or more", c.Duration("tick"))}
			}
			level := slog.LevelInfo
			if c.Bool("debug") {
				level = slog.LevelDebug
			}
			return daemon.Run(c.Context, daemon.Options{
				Options: common,
				Tick:    c.Duration("tick"),
				PerPod:  c.Bool("per-pod-metrics"),
				History: c.Bool(flagHistory) || c.Bool(flagHistoryMembers), HistoryMembers: c.Bool(flagHistoryMembers),
				Version: version,
				Log:     journallog.New(os.Stderr, level),
			})
		},
	}
}
