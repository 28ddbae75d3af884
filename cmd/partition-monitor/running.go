package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/monitor/node"
)

// applyServiceFlags sets the flags that the user has not given to what the running service was started with: by
// PARTITION_MONITOR_ARGS, or by a drop-in of its unit. What it shows is then what the service goes by. Where nothing runs, the defaults stay.
func applyServiceFlags(c *cli.Context, cgroups cgroupfs.FS, proc string) {
	args := node.ServiceArgs(cgroups, proc)
	if args == nil {
		return
	}
	service, err := parseRun(args)
	if err != nil {
		// It is of another version, or stopped by its own command line in this moment.
		fmt.Fprintf(
			c.App.ErrWriter,
			"partition-monitor: warning: the flags of the running service: %v; using the defaults; restart the service if it was updated\n",
			err,
		)
		return
	}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if c.IsSet(name) || !service.IsSet(name) {
			continue
		}
		if err := c.Set(name, fmt.Sprint(service.Value(name))); err != nil {
			fmt.Fprintf(
				c.App.ErrWriter, "partition-monitor: warning: --%s of the running service: %v; using the default\n",
				name, err,
			)
		}
	}
}

// parseRun reads a command line of run as run does, and runs nothing.
func parseRun(args []string) (*cli.Context, error) {
	app := newApp(io.Discard, io.Discard)
	var parsed *cli.Context
	app.Command("run").Action = func(c *cli.Context) error {
		parsed = c
		return nil
	}
	if err := app.Run(args); err != nil {
		return nil, err
	}
	if parsed == nil {
		return nil, fmt.Errorf("%q does not run the service", strings.Join(args, " "))
	}
	return parsed, nil
}
