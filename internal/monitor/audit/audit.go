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

// Node audits the node.
func Node(ctx context.Context, o Options) (audit.Report, error) {
	return confirmed(func() (audit.Report, error) {
		g := newGatherer(o)
		s, err := onNode(ctx, g.snapshot)
		if err != nil {
			return audit.Report{}, err
		}
		report := audit.Run(s)
		report.NotChecked = append(report.NotChecked, g.missing...)
		return report, nil
	})
}

// PartitionCPUs returns the findings about the partition's CPUs alone.
func PartitionCPUs(ctx context.Context, o Options) ([]audit.Finding, error) {
	report, err := confirmed(func() (audit.Report, error) {
		s, err := onNode(ctx, newGatherer(o).cpus)
		if err != nil {
			return audit.Report{}, err
		}
		return audit.PartitionCPUs(s), nil
	})
	return report.Findings, err
}

// confirmed audits a second time if there are findings. A finding counts if the second audit has it
// too: between two reads of the first, the kubelet may have started a pod.
func confirmed(look func() (audit.Report, error)) (audit.Report, error) {
	first, err := look()
	if err != nil || len(first.Findings) == 0 {
		return first, err
	}
	second, err := look()
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

// onNode takes a snapshot of a node that has pods.
func onNode(ctx context.Context, take func(context.Context) (*audit.Snapshot, error)) (*audit.Snapshot, error) {
	pods := cgroupfs.FS(cgroupfs.Mount).Path(unitname.Default.Slice())
	switch _, err := os.Stat(pods); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf(
			"%s does not exist: the kubelet has not started yet, or does not use the cgroup driver systemd; there is nothing to audit", pods)
	case err != nil:
		return nil, err
	}
	return take(ctx)
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
