package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"
)

// errHelp means that help was asked for behind an argument, and was shown. The library looks for
// that before the first argument alone.
var errHelp = errors.New("help was shown")

// arguments returns the arguments that are not flags. Flags may follow them. The library stops at
// the first argument, so arguments parses the rest.
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
		set.Visit(func(f *flag.Flag) { err = errors.Join(err, c.Set(fullName(c, f.Name), settable(f.Value))) })
		if err != nil {
			return nil, onUsageError(c, err, true)
		}
		rest = set.Args()
	}
	//guard: help behind an argument does nothing else
	if c.Bool("help") {
		return nil, errors.Join(cli.ShowCommandHelp(c.Lineage()[1], c.Command.Name), errHelp)
	}
	for _, f := range c.Command.Flags {
		if f, ok := f.(choice); ok { // it may stand behind an argument
			if err := f.RunAction(c); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// fullName returns the name under which a flag is read that is given by its short one.
func fullName(c *cli.Context, name string) string {
	for _, f := range c.Command.Flags {
		if names := f.Names(); slices.Contains(names, name) {
			return names[0]
		}
	}
	return name
}

// noArguments returns an error if a command that takes no arguments has one.
func noArguments(c *cli.Context) error {
	if !c.Args().Present() {
		return nil
	}
	names, err := arguments(c)
	if err == nil {
		err = usageError{fmt.Errorf("%s: unexpected argument %q", c.Command.Name, names[0])}
	}
	return err
}

// settable returns the value of a flag, in the form in which another flag can be set to it.
func settable(value flag.Value) string {
	if list, ok := value.(cli.Serializer); ok {
		return list.Serialize()
	}
	return value.String()
}
