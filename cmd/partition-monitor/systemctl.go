package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"nodepartition/internal/oneline"
)

// systemctlShow asks systemd for properties, of units or, without one, of itself: one map for each. The program is there wherever systemd is,
// and says the same to everybody, which its bus does not.
func systemctlShow(ctx context.Context, properties string, units ...string) ([]map[string]string, error) {
	args := append([]string{"show", "--property=" + properties, "--"}, units...)
	text, err := execute(ctx, "systemctl", args...)
	if err != nil {
		return nil, err
	}
	var all []map[string]string
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		values := map[string]string{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values[name] = value
		}
		all = append(all, values)
	}
	return all, nil
}

// execute runs a program to its end and returns what it says. Its error is what it complains of.
func execute(ctx context.Context, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = errors.New(oneline.Terminal(text))
		}
		if len(args) > 0 {
			name += " " + args[0]
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return stdout.String(), nil
}
