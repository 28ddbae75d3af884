// Package audit applies the rules of internal/audit to the running node, and writes the findings
// for people and for scripts. It changes nothing.
package audit

import (
	"context"
	"fmt"
	"io"
	"strings"

	"nodepartition/internal/audit"
	"nodepartition/internal/host"
	"nodepartition/internal/node/snapshot"
	"nodepartition/internal/oneline"
	"nodepartition/internal/output"
	"nodepartition/internal/terminal"
)

// Options holds the flags of the command audit.
type Options struct {
	// Node is the node that is audited.
	Node host.Node
	// PodsAPI is the socket of the kubelet's Pods API.
	PodsAPI string
}

// Node audits the node.
func Node(ctx context.Context, o Options) (audit.Report, error) {
	return audit.Confirmed(func() (audit.Report, error) {
		s, missing, err := snapshot.Read(ctx, o.Node, o.PodsAPI)
		if err != nil {
			return audit.Report{}, err
		}
		report := audit.Run(s)
		report.NotChecked = append(report.NotChecked, missing...)
		return report, nil
	})
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
	return terminal.Write(w, text.String(), len("warning "), terminal.Severities)
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
