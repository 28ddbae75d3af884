package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nodepartition/internal/installer/store"
	"nodepartition/internal/oneline"
	"nodepartition/internal/state"
	"nodepartition/internal/systemctl"
)

// Exec runs programs of this machine.
type Exec struct{}

// Run implements Runner.
func (Exec) Run(ctx context.Context, name string, args ...string) (Ran, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A child of the program may keep its output open after ctx has ended.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	ran := Ran{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() && ctx.Err() == nil {
		ran.Status, err = exit.ExitCode(), nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return ran, err
}

// run runs a program, and returns its output. Another exit status than 0 is an error with what the
// program says.
func (h *Host) run(ctx context.Context, name string, args ...string) (string, error) {
	ran, err := h.Programs.Run(ctx, name, args...)
	if err == nil && ran.Status != 0 {
		text := ran.Stderr
		if strings.TrimSpace(text) == "" {
			text = ran.Stdout
		}
		err = fmt.Errorf("%s (exit status %d)", oneline.Terminal(text), ran.Status)
	}
	if err != nil {
		first := ""
		if len(args) > 0 {
			first = " " + args[0]
		}
		return ran.Stdout, fmt.Errorf("%s%s: %w", filepath.Base(name), first, err)
	}
	return ran.Stdout, nil
}

func (h *Host) systemctl(ctx context.Context, args ...string) (string, error) {
	return h.run(ctx, "systemctl", args...)
}

// show returns properties of units, one map for each unit, in their order.
func (h *Host) show(ctx context.Context, properties string, units ...string) ([]map[string]string, error) {
	text, err := h.systemctl(ctx, append([]string{"show", "--property=" + properties, "--"}, units...)...)
	if err != nil {
		return nil, err
	}
	return systemctl.Parse(text), nil
}

// monitor returns the partition-monitor that is in force in a layout.
func (h *Host) monitor(l layout) string { return h.onDisk(path.Join(l.current(), monitorFile)) }

// has returns the layout in which something is in force.
func (h *Host) has() layout {
	usr, etc := layouts()
	if h.Root.Exists(etc.current()) {
		return etc
	}
	return usr
}

// onDisk returns the path of a file of the host for a program.
func (h *Host) onDisk(name string) string {
	path, err := h.Root.Path(name)
	if err != nil {
		return name
	}
	return path
}

// output runs partition-monitor with arguments after which it writes JSON, and decodes that. The
// exit status says only what the JSON says, too.
func (h *Host) output(ctx context.Context, into any, program string, args ...string) error {
	ran, err := h.Programs.Run(ctx, program, args...)
	if err != nil {
		return fmt.Errorf("partition-monitor %s: %w", args[0], err)
	}
	if err := json.Unmarshal([]byte(ran.Stdout), into); err != nil {
		return fmt.Errorf("partition-monitor %s: exit status %d: %s: %w", args[0], ran.Status, oneline.Terminal(ran.Stderr), err)
	}
	return nil
}

// check returns the errors that partition-monitor check finds.
func (h *Host) check(ctx context.Context, program string) ([]state.Finding, error) {
	var all state.Findings
	err := h.output(ctx, &all, program, "check", "-o", "json")
	return slices.DeleteFunc(all.Findings, func(f state.Finding) bool { return f.Grade != state.Error }), err
}

// validate judges the section of the roll for this node.
func (h *Host) validate(ctx context.Context, program string) (v state.Validation, err error) {
	err = h.output(ctx, &v, program, "validate", "-o", "json", "--root=/", h.onDisk(h.In(store.Section)))
	return v, err
}

func (h *Host) status(ctx context.Context, program string) (s state.Status, err error) {
	err = h.output(ctx, &s, program, "status", "-o", "json")
	return s, err
}
