package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/buildversion"
	"node-partition.io/node-partition/internal/daemon"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/journallog"
	"node-partition.io/node-partition/internal/node/options"
)

func runCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "place pods, keep limits and weights in step, evict, and serve metrics: partition-monitor.service runs it",
		Flags: commonFlags(
			textFlag(options.FlagWebConfig, ""),
			textFlag(options.FlagTextfile, ""),
			durationFlag(options.FlagTick, 30*time.Second),
			boolFlag(options.FlagPerPod),
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
			webConfig, err := readPath(c, n, options.FlagWebConfig)
			if err != nil {
				return err
			}
			folder, err := readPath(c, n, options.FlagTextfile)
			if err != nil {
				return err
			}
			level := slog.LevelInfo
			if c.Bool(options.FlagDebug) {
				level = slog.LevelDebug
			}
			return daemon.Run(c.Context, daemon.Options{
				Options: common,
				Tick:    c.Duration(options.FlagTick),
				PerPod:  c.Bool(options.FlagPerPod),
				Version: buildversion.String(),
				Log:     journallog.New(os.Stderr, level),

				WebConfig: webConfig,
				Textfile:  folder,
			})
		},
	}
}

// readPath returns the path of a flag on n, empty if the flag is not set, or a usageError.
func readPath(c *cli.Context, n host.Node, name string) (string, error) {
	path := c.String(name)
	switch {
	case path == "":
		return "", nil
	case !filepath.IsAbs(path):
		return "", usageError{fmt.Errorf("--%s=%s: want an absolute path", name, path)}
	}
	return n.Path(path), nil
}
