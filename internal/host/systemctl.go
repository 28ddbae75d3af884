package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/text"
)

// This file queries systemd through its own programs, which every user may run. The daemon
// also waits for signals, so it uses D-Bus (internal/systemd).

// Programs is the folder of the programs of systemd. It is empty for the search path.
type Programs string

// Show returns properties of units, or of systemd itself without a unit: one map for each, from
// names to values. A property with several values, such as EnvironmentFiles=, has one on each line.
// properties holds names with commas between them. systemctl exists wherever systemd does, and
// unlike its bus it answers every user.
func (p Programs) Show(ctx context.Context, properties string, units ...string) ([]map[string]string, error) {
	args := append([]string{"show", "--property=" + properties, "--"}, units...)
	text, err := p.Run(ctx, "systemctl", args...)
	if err != nil {
		return nil, err
	}
	return ParseShow(text), nil
}

// ParseShow returns the properties in an output of systemctl show, as Show does.
func ParseShow(text string) []map[string]string {
	var all []map[string]string
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		values := map[string]string{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if had, ok := values[name]; ok {
				value = had + "\n" + value
			}
			values[name] = value
		}
		all = append(all, values)
	}
	return all
}

// waitDelay bounds the wait for the output of a program that was ended.
const waitDelay = time.Second

// Run runs a program until it ends, and returns its standard output, with an error, too. The error
// has the name of the program, its first argument, and on one line what it has said, or why ctx has
// ended.
func (p Programs) Run(ctx context.Context, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	path := name
	if p != "" {
		path = filepath.Join(string(p), name)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A child of the program may keep its output open after ctx has ended.
	cmd.WaitDelay = waitDelay
	if err := cmd.Run(); err != nil {
		content := cmp.Or(strings.TrimSpace(stderr.String()), strings.TrimSpace(stdout.String()))
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case content != "":
			err = errors.New(text.Terminal(content))
		}
		name = filepath.Base(name)
		if len(args) > 0 {
			name += " " + args[0]
		}
		return stdout.String(), fmt.Errorf("%s: %w", name, err)
	}
	return stdout.String(), nil
}
