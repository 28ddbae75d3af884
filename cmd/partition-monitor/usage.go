package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// usageError reports an invalid command line.
type usageError struct{ error }

// onUsageError returns an error of the package flag, with the option that is probably meant.
func onUsageError(c *cli.Context, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usageError{err}
	}
	flags := c.App.Flags
	if slices.Contains(c.App.Commands, c.Command) {
		flags = c.Command.Flags
	}
	if c.Command != nil && name == flagRoot {
		return rootRefused(c.Command.Name)
	}
	if near := cli.SuggestFlag(flags, name, false); near != "" {
		err = fmt.Errorf("%w; is %s meant?", err, near)
	}
	return usageError{err}
}
