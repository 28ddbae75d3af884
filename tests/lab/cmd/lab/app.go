package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/tests/lab"
)

// newApp returns the command line.
func newApp() *cli.App {
	return &cli.App{
		Name:            "lab",
		Usage:           "disposable Kubernetes nodes in virtual machines",
		HideHelpCommand: true,
		ExitErrHandler:  func(*cli.Context, error) {}, // main prints the error
		Commands: []*cli.Command{
			{
				Name:      "prepare",
				Usage:     "make everything that nodes boot from; when no flavour is named those of make test, and a control plane",
				ArgsUsage: "[FLAVOUR...]",
				Action:    prepare,
			},
			{
				Name:   "flavours",
				Usage:  "print the names of all flavours",
				Action: printFlavours,
			},
			{
				Name:   "up",
				Usage:  "start a node and wait until its pods run",
				Action: up,
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "flavour", Usage: "`FLAVOUR` of the node: " + flavours()},
					&cli.StringFlag{Name: "name", Usage: "host `NAME` of the node", Value: "node"},
					&cli.StringSliceFlag{
						Name:      "file",
						Usage:     "put a file into the node before it boots: `HOST:GUEST`",
						KeepSpace: true,
					},
					&cli.StringSliceFlag{Name: "kernel-arg", Usage: "add `ARG` to the kernel's command line"},
					&cli.BoolFlag{Name: "late-var", Usage: "have /var on a file system that systemd mounts"},
					&cli.BoolFlag{Name: "no-pods", Usage: "leave out the default static pods"},
					&cli.IntFlag{Name: "memory", Usage: "memory in `MIB`", Value: 4096},
					&cli.IntFlag{Name: "cpus", Usage: "number of CPUs", Value: 2},
				},
			},
			{
				Name:            "ssh",
				Usage:           "log in to a node, or run a command in it",
				ArgsUsage:       "NAME [-- COMMAND...]",
				Action:          ssh,
				SkipFlagParsing: true,
			},
			{
				Name:   "status",
				Usage:  "list the nodes",
				Action: status,
			},
			{
				Name:      "down",
				Usage:     "power nodes off and remove them",
				ArgsUsage: "NAME...",
				Action:    down,
				Flags:     []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "all nodes that were started with up"}},
			},
			{
				Name:   "demo",
				Usage:  "boot a node with a system partition and show it; make demo has it build the programs",
				Action: demo,
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "flavour", Usage: "`FLAVOUR` of the node", Value: demoFlavour},
					&cli.StringFlag{Name: "build", Usage: "`COMMAND` of the shell that builds the programs into bin"},
				},
			},
			{
				Name:      "collect",
				Usage:     "write the journal, cgroups, units and pods of a node into a folder",
				ArgsUsage: "NAME DIR",
				Action:    collect,
			},
		},
	}
}

func printFlavours(c *cli.Context) error {
	for _, f := range lab.Flavours() {
		fmt.Fprintln(c.App.Writer, f.Name)
	}
	return nil
}

func flavours() string {
	known := lab.AllFlavours()
	all := make([]string, 0, len(known))
	for _, f := range known {
		all = append(all, fmt.Sprintf("%s (%s)", f.Name, f.Summary))
	}
	return strings.Join(all, ", ") + "; any of them with +kubelet-1.35 behind it has that kubelet"
}

// progress returns a function that prints lines with the seconds since the command began.
func progress() func(string) {
	began := time.Now()
	return func(line string) { fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), line) }
}

func prepare(c *cli.Context) error {
	wanted := lab.Everything()
	if c.Args().Present() {
		wanted = lab.Wanted{Flavours: c.Args().Slice()}
	}
	tell := progress()
	if err := lab.Prepare(c.Context, wanted, tell); err != nil {
		return err
	}
	tell("ready: " + strings.Join(wanted.Flavours, ", "))
	return nil
}

func up(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("up: %q is not expected: name the node with --name", c.Args().First())
	}
	var files []lab.File
	for _, pair := range c.StringSlice("file") {
		host, guest, ok := strings.Cut(pair, ":")
		if !ok || !strings.HasPrefix(guest, "/") {
			return fmt.Errorf("--file %s: want HOST:GUEST with an absolute GUEST", pair)
		}
		files = append(files, lab.File{Source: host, Path: guest})
	}
	tell := progress()
	n, err := lab.Start(c.Context, lab.Options{
		Name: c.String("name"), Flavour: c.String("flavour"), Files: files, NoPods: c.Bool("no-pods"),
		KernelArgs: c.StringSlice("kernel-arg"), LateVar: c.Bool("late-var"),
		MemoryMiB: c.Int("memory"), CPUs: c.Int("cpus"), Detached: true, Progress: tell,
	})
	if err != nil {
		return err
	}
	tell("waiting for the kubelet and its pods ...")
	if err := n.WaitReady(c.Context); err != nil {
		if c.Err() != nil {
			return errors.Join(err, n.Stop(context.WithoutCancel(c.Context)))
		}
		return fmt.Errorf("%w: the node is left as it is: look at it with: lab ssh %s", err, n.Name)
	}
	tell(n.Name + " is ready: lab ssh " + n.Name)
	return nil
}

func ssh(c *cli.Context) error {
	name, cmd := c.Args().First(), c.Args().Tail()
	if name == "" || strings.HasPrefix(name, "-") {
		return errors.New("ssh: which node? lab ssh NAME [-- COMMAND...]")
	}
	if len(cmd) > 0 && cmd[0] == "--" {
		cmd = cmd[1:]
	}
	n, err := lab.Open(c.Context, name)
	if err != nil {
		return err
	}
	if err := n.CheckRunning(); err != nil {
		return err
	}
	args := n.SSHCommand(cmd...)
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("ssh: %w: install the package openssh-client", err)
	}
	return syscall.Exec(path, args, os.Environ())
}

func status(c *cli.Context) error {
	nodes, err := lab.List(c.Context)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tFLAVOUR\tSTATE\tPORT\tUPTIME")
	for _, n := range nodes {
		state, uptime := "running", time.Since(n.Started).Round(time.Second).String()
		switch {
		case n.Unfinished:
			fmt.Fprintf(w, "%s\t-\tits start was killed\t-\t-\n", n.Name)
			continue
		case !n.Running:
			state, uptime = "ended", "-"
		case !n.Detached:
			state = "running (test)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", n.Name, n.Flavour, state, n.Port, uptime)
	}
	return w.Flush()
}

func down(c *cli.Context) error {
	names := c.Args().Slice()
	if c.Bool("all") {
		nodes, err := lab.List(c.Context)
		if err != nil {
			return err
		}
		names = nil
		for _, n := range nodes {
			// A test's node belongs to its test while that runs.
			if n.Detached || n.Unfinished || !n.Running {
				names = append(names, n.Name)
			}
		}
	} else if len(names) == 0 {
		return errors.New("down: which node? lab down NAME... or lab down --all")
	}
	tell := progress()
	var failed []error
	for _, name := range names {
		if err := lab.Down(c.Context, name); err != nil {
			failed = append(failed, err)
			continue
		}
		tell(name + " is down")
	}
	return errors.Join(failed...)
}

func collect(c *cli.Context) error {
	if c.Args().Len() != 2 {
		return errors.New("collect: want a node and a folder: lab collect NAME DIR")
	}
	n, err := lab.Open(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	return n.Collect(c.Context, c.Args().Get(1))
}
