package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
)

// usageError reports an invalid command line.
type usageError struct{ error }

// The errors of the package flag, which have no types.
var (
	undefinedFlag = pattern(`^flag provided but not defined: -+(.+)$`)
	invalidValue  = pattern(`(?s)^invalid (?:boolean )?value "(.*)" for (?:flag )?-+(\S+): .*$`)
	missingValue  = pattern(`^flag needs an argument: -+(.+)$`)
)

// pattern compiles a regular expression when it is first used.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	command := c.Command
	flags := c.App.Flags
	if command != nil && slices.Contains(c.App.Commands, command) {
		flags = command.Flags
	}
	if at := undefinedFlag().FindStringSubmatch(err.Error()); command != nil && at != nil && at[1] == flagRoot {
		return rootRefused(command.Name)
	}
	return usageError{flagError(err, flags)}
}

// flagError says an error of the package flag in our words: what is given, and what is wanted.
func flagError(err error, flags []cli.Flag) error {
	text := err.Error()
	if at := undefinedFlag().FindStringSubmatch(text); at != nil {
		name, _, _ := strings.Cut(at[1], "=")
		if near := cli.SuggestFlag(flags, name, false); near != "" {
			return fmt.Errorf("unknown option %s; is %s meant?", dashed(name), near)
		}
		return fmt.Errorf("unknown option %s", dashed(name))
	}
	if at := invalidValue().FindStringSubmatch(text); at != nil {
		return fmt.Errorf("%s=%s: want %s", dashed(at[2]), at[1], wanted(at[2], flags))
	}
	if at := missingValue().FindStringSubmatch(text); at != nil {
		return fmt.Errorf("%s: want a value", dashed(at[1]))
	}
	return err
}

// dashed returns the name of an option as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// wanted says which values an option takes.
func wanted(name string, flags []cli.Flag) string {
	at := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if at != -1 {
		switch flags[at].(type) {
		case *cli.DurationFlag:
			return "a duration such as 30s or 1m30s"
		case *cli.IntFlag:
			return "a whole number"
		case *cli.BoolFlag:
			return "true or false, or no value"
		}
	}
	return "another value"
}
