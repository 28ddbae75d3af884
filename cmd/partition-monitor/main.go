// Command partition-monitor keeps the pods of the system partition's namespaces in the partition,
// and shows their state.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/pkg/podmove/nri"
	"node-partition.io/node-partition/pkg/slices/config"
)

// The exit statuses of all commands.
const (
	exitOK = iota
	// exitProblem is for errors, and for check if the configuration or the node has one.
	exitProblem
	// exitUsage is for an invalid command line, and for a --root or a FILE of validate that cannot be
	// read.
	exitUsage
)

func main() {
	// No one reads a profile of allocations, and its tables are resident memory.
	runtime.MemProfileRate = 0
	cli.HelpPrinter = printHelp
	os.Exit(run(context.Background(), host.This(), os.Args, os.Stdout, os.Stderr))
}

// signalled returns a context that ends with the first SIGTERM or SIGINT. The second one kills:
// what reads a pipe does not look at the context.
func signalled(ctx context.Context) (ended context.Context, stop func()) {
	ended, stop = signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ended, stop)
	return ended, stop
}

// run runs the program on n, and returns its exit status.
func run(ctx context.Context, n host.Node, args []string, stdout, stderr io.Writer) int {
	if nri.IsPrelaunched() && len(args) == 1 {
		ctx, stop := signalled(ctx)
		defer stop()
		return runPrelaunched(ctx, n)
	}
	app := newApp(n, stdout, stderr)
	err := app.RunContext(ctx, args)
	var usage usageError
	var problems problemsFound
	var unread unreadable
	switch {
	case err == nil, errors.Is(err, errHelp):
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "partition-monitor: error: %v; see %s --help\n", err, named(app, args))
		return exitUsage
	case errors.As(err, &problems):
		return exitProblem // check has shown the findings
	case errors.As(err, &unread):
		fmt.Fprintf(stderr, "partition-monitor: error: %v\n", err)
		return exitUsage
	default:
		for _, problem := range config.Problems(err) {
			fmt.Fprintf(stderr, "partition-monitor: error: %v\n", problem)
		}
		return exitProblem
	}
}

// named returns the part of a command line that names the program and the command.
func named(app *cli.App, args []string) string {
	for _, arg := range args[1:] {
		if command := app.Command(arg); command != nil && arg != "help" {
			return app.Name + " " + command.Name
		}
	}
	return app.Name
}

func newApp(n host.Node, stdout, stderr io.Writer) *cli.App {
	app := &cli.App{
		Name:        "partition-monitor",
		Usage:       "keeps the pods of the system partition's namespaces in kubepods-system.slice",
		HideVersion: true, // the library's text differs from the command's
		Writer:      stdout,
		ErrWriter:   stderr,
		Commands: []*cli.Command{
			runCommand(n),
			statusCommand(n),
			checkCommand(n),
			explainCommand(),
			validateCommand(n),
			planCommand(n),
			recommendCommand(n),
			renderCommand(n),
			moveCommand(n),
			tryCommand(n),
			keepCommand(n),
			collectCommand(n),
			versionCommand(),
		},
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: flagVersion, Usage: "show the version", DisableDefaultText: true}, rootFlag(),
		},
		OnUsageError: onUsageError,
		Before: func(c *cli.Context) error {
			if c.Bool(flagVersion) && c.Args().Present() {
				return usageError{fmt.Errorf("--%s: takes no command", flagVersion)}
			}
			if of := c.Args().Get(1); c.Args().First() == "help" && of != "" && c.App.Command(of) == nil {
				return usageError{fmt.Errorf("help: unknown command %q", of)}
			}
			return nil
		},
		// run shows the errors.
		ExitErrHandler: func(*cli.Context, error) {},
		Action: func(c *cli.Context) error {
			if c.Bool(flagVersion) {
				return showVersion(c)
			}
			if c.Args().Present() {
				name := c.Args().First()
				if successor, ok := gone[name]; ok {
					return usageError{fmt.Errorf("the command %s is gone: use %s", name, successor)}
				}
				return usageError{fmt.Errorf("unknown command %q (%s)", name, cli.SuggestCommand(c.App.Commands, name))}
			}
			return usageError{errors.New("a command is missing")}
		},
	}
	for _, command := range app.Commands {
		command.OnUsageError = onUsageError
		reads := slices.Contains(readers, command.Name)
		if reads {
			command.Flags = append(command.Flags, rootFlag())
		}
		command.Before = func(c *cli.Context) error {
			if command.ArgsUsage == "" {
				if err := noArguments(c); err != nil {
					return err
				}
			}
			if !reads {
				return noRoot(c)
			}
			return nil
		}
		if slices.Contains(finishing, command.Name) {
			command.Action = withSignals(command.Action)
		}
		if command.Action != nil && !slices.Contains(unending, command.Name) {
			command.Action = withProgress(command.Action, stderr)
		}
	}
	return app
}

// gone has the successors of the commands that are gone.
var gone = map[string]string{
	"audit":   "partition-monitor check",
	"history": "partition-monitor status for the last day, and a Prometheus for what was before",
	"top":     "partition-monitor status --watch",
}

// unending lists the commands that last as long as a person wants.
var unending = []string{"run"}

// finishing lists the commands that finish something at a signal. The others change nothing, and a
// signal kills them.
var finishing = []string{"run", "move", "try", "keep", "collect"}

func withSignals(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		ctx, stop := signalled(c.Context)
		defer stop()
		c.Context = ctx
		return action(c)
	}
}

// withProgress shows on a terminal that a command which takes long still works.
func withProgress(action cli.ActionFunc, stderr io.Writer) cli.ActionFunc {
	return func(c *cli.Context) error {
		stop := output.TerminalOf(stderr).Progress(stderr, c.Command.Name, c.Duration(flagTimeout))
		defer stop()
		c.App.Writer, c.App.ErrWriter = output.Before(c.App.Writer, stop), output.Before(c.App.ErrWriter, stop)
		return action(c)
	}
}
