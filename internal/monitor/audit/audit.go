// Package audit reads what the rules of internal/audit are applied to from the running node, and
// writes the findings for people and for scripts. It changes nothing.
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"nodepartition/internal/audit"
	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/oneline"
	"nodepartition/internal/output"
	"nodepartition/internal/unitname"
)

// Options holds the flags of the command audit.
type Options struct {
	// PodsAPI is the socket of the kubelet's Pods API.
	PodsAPI string
}

// Node audits the node. A finding counts if a second look has it too: between two reads of the
// first, the kubelet may have started a pod.
func Node(ctx context.Context, o Options) (audit.Report, error) {
	first, err := look(ctx, o)
	if err != nil || len(first.Findings) == 0 {
		return first, err
	}
	second, err := look(ctx, o)
	if err != nil {
		return second, err
	}
	second.Findings = slices.DeleteFunc(second.Findings, func(f audit.Finding) bool {
		return !slices.ContainsFunc(first.Findings, func(was audit.Finding) bool {
			return was.Path == f.Path && was.Value == f.Value
		})
	})
	return second, nil
}

// PartitionCPUs returns the findings about the partition's CPUs alone.
func PartitionCPUs(ctx context.Context, o Options) ([]audit.Finding, error) {
	report, err := Node(ctx, o)
	return slices.DeleteFunc(report.Findings, func(f audit.Finding) bool { return f.Rule != audit.RulePartitionCPUs }), err
}

func look(ctx context.Context, o Options) (audit.Report, error) {
	g := gatherer{cgroups: cgroupfs.Mount, options: o}
	pods := g.cgroups.Path(unitname.Default.Slice())
	switch _, err := os.Stat(pods); {
	case errors.Is(err, fs.ErrNotExist):
		return audit.Report{}, fmt.Errorf(
			"%s does not exist: the kubelet has not started yet, or does not use the cgroup driver systemd; there is nothing to audit", pods)
	case err != nil:
		return audit.Report{}, err
	}
	s, err := g.snapshot(ctx)
	if err != nil {
		return audit.Report{}, err
	}
	report := audit.Run(s)
	report.NotChecked = append(report.NotChecked, g.missing...)
	return report, nil
}

// WriteJSON writes a report for scripts. Cures are commands.
func WriteJSON(w io.Writer, r audit.Report) error {
	return output.JSONWithCommands(w, r)
}

// WriteText writes a report for people.
func WriteText(w io.Writer, r audit.Report) error {
	var text strings.Builder
	failures := 0
	for _, f := range r.Findings {
		if f.Severity == audit.Error {
			failures++
		}
		fmt.Fprintf(&text, "%-8s%s: %s is %s; expected %s\n",
			f.Severity, f.Rule, oneline.Terminal(f.Path), shown(f.Value), shown(f.Expected))
		fmt.Fprintf(&text, "        why: %s\n        see: %s\n        cure: %s\n",
			oneline.Terminal(f.Why), f.Document, oneline.Terminal(f.Cure))
	}
	for _, reason := range r.NotChecked {
		fmt.Fprintf(&text, "not checked: %s\n", oneline.Terminal(reason))
	}
	fmt.Fprintf(&text, "Findings: %d, errors: %d. Formula of cpu.weight: %s for the kubelet, %s for the runtime\n",
		len(r.Findings), failures, orUnknown(r.Formulas.Kubelet), orUnknown(r.Formulas.Runtime))
	_, err := io.WriteString(w, text.String())
	return err
}

func shown(value string) string {
	if value == "" {
		return "empty"
	}
	return oneline.Terminal(value)
}

func orUnknown(formula string) string {
	if formula == "" {
		return "unknown"
	}
	return formula
}
