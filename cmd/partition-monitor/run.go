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
	"node-partition.io/node-partition/internal/node"
)

func runCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "place and evict pods, serve metrics: partition-monitor.service",
		Flags: commonFlags(
			textFlag(node.FlagWebConfig, ""),
			textFlag(node.FlagTextfile, ""),
			durationFlag(node.FlagTick, 30*time.Second),
			boolFlag(node.FlagPerPod),
			boolFlag(node.FlagDebug),
		),
		Action: func(c *cli.Context) error {
			common, err := readOptions(c, n)
			if err != nil {
				return err
			}
			if c.Duration(node.FlagTick) < time.Second {
				return usageError{fmt.Errorf("--%s=%s: want a second or more", node.FlagTick, c.Duration(node.FlagTick))}
			}
			webConfig, err := readPath(c, n, node.FlagWebConfig)
			if err != nil {
				return err
			}
			folder, err := readPath(c, n, node.FlagTextfile)
			if err != nil {
				return err
			}
			level := slog.LevelInfo
			if c.Bool(node.FlagDebug) {
				level = slog.LevelDebug
			}
			return daemon.Run(c.Context, daemon.Options{
				Options: common,
				Tick:    c.Duration(node.FlagTick),
				PerPod:  c.Bool(node.FlagPerPod),
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
