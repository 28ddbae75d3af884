package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"nodepartition/internal/installer/store"
	"nodepartition/internal/oneline"
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

// monitorPath is the path of partition-monitor in an installation.
const monitorPath = "/usr/bin/partition-monitor"

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

// installed returns partition-monitor of the installation.
func (h *Host) installed() string { return h.onDisk(monitorPath) }

// brought returns partition-monitor of the payload, as long as that is there: the way back may have
// removed the other one.
func (h *Host) brought() string {
	name := h.In(filepath.Join(store.Payload, monitorPath))
	if was, err := h.Present(name); err == nil && was.Exists {
		return h.onDisk(name)
	}
	return h.installed()
}

// onDisk returns the path of a file of the host for a program.
func (h *Host) onDisk(name string) string {
	path, err := h.Root.Path(name)
	if err != nil {
		return name
	}
	return path
}

// finding is a result of partition-monitor check.
type finding struct {
	Check  string `json:"check"`
	Grade  string `json:"grade"`
	Found  string `json:"found"`
	Change string `json:"change"`
}

func (f finding) String() string {
	text := f.Check + ": " + f.Found
	if f.Change != "" {
		text += "; change: " + f.Change
	}
	return text
}

// check returns the errors that partition-monitor check finds.
func (h *Host) check(ctx context.Context, program string) ([]finding, error) {
	ran, err := h.Programs.Run(ctx, program, "check", "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("partition-monitor check: %w", err)
	}
	var all struct {
		Findings []finding `json:"findings"`
	}
	if err := json.Unmarshal([]byte(ran.Stdout), &all); err != nil {
		return nil, fmt.Errorf("partition-monitor check: exit status %d: %s: %w", ran.Status, oneline.Terminal(ran.Stderr), err)
	}
	var errs []finding
	for _, f := range all.Findings {
		if f.Grade == "error" {
			errs = append(errs, f)
		}
	}
	return errs, nil
}

// validated is the result of partition-monitor validate.
type validated struct {
	Valid    bool `json:"valid"`
	Problems []struct {
		File    string `json:"file"`
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"problems"`
	Partitions []struct {
		Name       string   `json:"name"`
		Namespaces []string `json:"namespaces"`
	} `json:"partitions"`
}

// validate judges the section of the roll for this node.
func (h *Host) validate(ctx context.Context, program string) (validated, error) {
	var v validated
	ran, err := h.Programs.Run(ctx, program, "validate", "-o", "json", "--root=/", h.onDisk(h.In(store.Section)))
	if err != nil {
		return v, fmt.Errorf("partition-monitor validate: %w", err)
	}
	if err := json.Unmarshal([]byte(ran.Stdout), &v); err != nil {
		return v, fmt.Errorf("partition-monitor validate: exit status %d: %s: %w", ran.Status, oneline.Terminal(ran.Stderr), err)
	}
	return v, nil
}

// statused is the part of the output of partition-monitor status that the stages read.
type statused struct {
	Partitions []struct {
		Name  string `json:"name"`
		Slice string `json:"slice"`
	} `json:"partitions"`
	Problem string `json:"problem"`
	Service string `json:"service"`
	Pods    []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Slice     string `json:"slice"`
		Reason    string `json:"reason"`
		Misplaced int    `json:"misplaced"`
	} `json:"pods"`
}

func (h *Host) status(ctx context.Context, program string) (statused, error) {
	var s statused
	ran, err := h.Programs.Run(ctx, program, "status", "-o", "json")
	if err != nil {
		return s, fmt.Errorf("partition-monitor status: %w", err)
	}
	if err := json.Unmarshal([]byte(ran.Stdout), &s); err != nil {
		return s, fmt.Errorf("partition-monitor status: exit status %d: %s: %w", ran.Status, oneline.Terminal(ran.Stderr), err)
	}
	return s, nil
}
