package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagOutput selects the format of a command that shows something.
const flagOutput = "output"

// format is a form in which a command shows a T.
type format[T any] struct {
	name  string
	write func(io.Writer, T) error
}

// formats lists the formats of a command. The first is the default.
type formats[T any] []format[T]

// flag returns the flag that selects a format.
func (all formats[T]) flag() cli.Flag {
	return &cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Usage: "`FORMAT`: " + all.names(), Value: all[0].name}
}

// names lists the formats for people.
func (all formats[T]) names() string {
	names := make([]string, 0, len(all))
	for _, f := range all {
		names = append(names, f.name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// writer returns the function that writes the format of the flag, or a usageError.
func (all formats[T]) writer(c *cli.Context) (func(io.Writer, T) error, error) {
	value := c.String(flagOutput)
	for _, f := range all {
		if f.name == value {
			return f.write, nil
		}
	}
	return nil, usageError{fmt.Errorf("--%s=%s: want %s", flagOutput, value, all.names())}
}
