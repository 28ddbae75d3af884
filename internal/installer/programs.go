package installer

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/state"
)

func (h *Host) systemctl(ctx context.Context, args ...string) (string, error) {
	return h.Programs.Run(ctx, "systemctl", args...)
}

// show returns properties of units, one map for each unit, in their order.
func (h *Host) show(ctx context.Context, properties string, units ...string) ([]map[string]string, error) {
	text, err := h.systemctl(ctx, append([]string{"show", "--property=" + properties, "--"}, units...)...)
	if err != nil {
		return nil, err
	}
	return host.ParseShow(text), nil
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
	text, err := h.Programs.Run(ctx, program, args...)
	unreadable := json.Unmarshal([]byte(text), into)
	switch {
	case unreadable == nil:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("partition-monitor %s: %w", args[0], unreadable)
}

// check returns the errors that partition-monitor check finds.
func (h *Host) check(ctx context.Context, program string) ([]state.Finding, error) {
	var all state.Findings
	err := h.output(ctx, &all, program, "check", "-o", "json")
	return slices.DeleteFunc(all.Findings, func(f state.Finding) bool { return f.Grade != state.Error }), err
}

// validate judges the section of the rollout for this node.
func (h *Host) validate(ctx context.Context, program string) (v state.Validation, err error) {
	err = h.output(ctx, &v, program, "validate", "-o", "json", "--root=/", h.onDisk(h.In(Section)))
	return v, err
}

func (h *Host) status(ctx context.Context, program string) (s state.Status, err error) {
	err = h.output(ctx, &s, program, "status", "-o", "json")
	return s, err
}
