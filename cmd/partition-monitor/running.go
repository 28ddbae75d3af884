package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
)

// applyServiceFlags sets the flags that the user has not set to the values of the running service
// of n, which has them from PARTITION_MONITOR_ARGS or from a drop-in of its unit. The command then
// uses what the service uses. If no service is running, the defaults stay.
func applyServiceFlags(c *cli.Context, n host.Node) {
	args := node.ServiceArgs(n)
	if args == nil {
		return
	}
	service, err := parseRun(args)
	if err != nil {
		// The service is of another version, or is just exiting with a usage error.
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

// parseRun parses a command line of run as run does, and does not start the service.
func parseRun(args []string) (*cli.Context, error) {
	app := newApp(host.Node{}, io.Discard, io.Discard)
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
