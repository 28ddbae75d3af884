package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/monitor/trial"
	"nodepartition/internal/oneline"
)

const (
	flagFor = "for"
	flagEnd = "end"
)

func tryCommand() *cli.Command {
	return &cli.Command{
		Name:      "try",
		ArgsUsage: "FILE",
		Usage: "apply the section of FILE (- is standard input), and go back by itself when the time is over, at a reboot, or with --end, " +
			"unless keep comes first",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: flagFor, Usage: "how long; the node goes back by itself after that", Value: 10 * time.Minute},
			&cli.BoolFlag{Name: flagEnd, Usage: "end the trial that runs, and go back at once"},
		},
		Action: func(c *cli.Context) error {
			files, err := arguments(c)
			if err != nil {
				return err
			}
			if c.Bool(flagEnd) {
				if len(files) > 0 || c.IsSet(flagFor) {
					return usageError{fmt.Errorf("try --%s: takes neither a FILE nor --%s", flagEnd, flagFor)}
				}
				return endCommand(c)
			}
			if len(files) != 1 {
				return usageError{errors.New("try: want one FILE, or - for standard input")}
			}
			if d := c.Duration(flagFor); d < time.Second {
				return usageError{fmt.Errorf("--%s=%s: want a second or more", flagFor, d)}
			}
			return startCommand(c, files[0])
		},
	}
}

// arguments returns those that are no flags. Flags may stand behind them: the library stops at the first.
func arguments(c *cli.Context) ([]string, error) {
	var names []string
	for rest := c.Args().Slice(); len(rest) > 0; {
		names = append(names, rest[0])
		set := flag.NewFlagSet(c.Command.Name, flag.ContinueOnError)
		set.SetOutput(io.Discard)
		for _, f := range c.Command.Flags {
			if err := f.Apply(set); err != nil {
				return nil, err
			}
		}
		err := set.Parse(rest[1:])
		set.Visit(func(f *flag.Flag) { err = errors.Join(err, c.Set(f.Name, f.Value.String())) })
		if err != nil {
			return nil, usageError{err}
		}
		rest = set.Args()
	}
	return names, nil
}

func startCommand(c *cli.Context, file string) error {
	from, data, err := readSection(c.App.Reader, file)
	if err != nil {
		return err
	}
	running, warnings, err := trial.Start(c.Context, from, data, c.Duration(flagFor))
	for _, warning := range warnings {
		fmt.Fprintf(c.App.ErrWriter, "partition-monitor: warning: %s\n", warning)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, `%s is tried until %s. Then the node goes back by itself.
partition-monitor status      shows what comes of it
partition-monitor keep        keeps it, in %s
partition-monitor try --end   goes back at once
`, oneline.Terminal(running.From), running.Until.Format(trial.TimeOfDay), kubeletconfig.OverridePath)
	return err
}

// maxSectionBytes is more than a section may have: what is too large is said where it is judged.
const maxSectionBytes = 1 << 20

// readSection reads the file to try, and returns what to call it.
func readSection(stdin io.Reader, file string) (name string, data []byte, err error) {
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, maxSectionBytes))
		return "standard input", data, err
	}
	if name, err = filepath.Abs(file); err != nil {
		return "", nil, err
	}
	opened, err := os.Open(name)
	if err != nil {
		return "", nil, err
	}
	defer opened.Close()
	data, err = io.ReadAll(io.LimitReader(opened, maxSectionBytes))
	return name, data, err
}

func endCommand(c *cli.Context) error {
	if err := trial.End(c.Context); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.App.Writer, "The trial has ended, and the configuration of before is applied.")
	return err
}

func keepCommand() *cli.Command {
	return &cli.Command{
		Name:  "keep",
		Usage: "keep the section that is tried: write it to " + kubeletconfig.OverridePath + ", and let its time run out without effect",
		Action: func(c *cli.Context) error {
			if err := trial.Keep(c.Context); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.App.Writer, "Kept, in "+kubeletconfig.OverridePath+".")
			return err
		},
	}
}
