// Package check compares the node with what the configuration and the programs need, and returns what is wrong and what to change.
package check

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/monitor/node"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/oneline"
)

// Grade is how bad a finding is.
type Grade string

// The grades.
const (
	OK      Grade = "ok"
	Warning Grade = "warning"
	Error   Grade = "error"
	// Ignored is a warning or an error that the user does not want to hear of.
	Ignored Grade = "ignored"
)

// Finding is what a check has found. Its JSON is for scripts: fields are added, not changed.
type Finding struct {
	// Check is the name of the check. One check may find several things.
	Check string `json:"check"`
	Grade Grade  `json:"grade"`
	// Found is what is there, or what is wrong.
	Found string `json:"found"`
	// Change is what to do about it; empty where Found says it, or where nothing is to be done.
	Change string `json:"change,omitempty"`
	// Docs is where it is explained.
	Docs string `json:"docs,omitempty"`
	// Looked are the files that were looked at.
	Looked []kubeletconfig.Look `json:"looked,omitempty"`
}

// Node checks the node, in the order in which an operator meets things: first the configuration. What the checks whose names are
// ignored find, but for what is in order, has the grade Ignored.
func Node(ctx context.Context, o options.Options, ignored []string) []Finding {
	c := &checks{options: o, runtime: node.NewRuntime(o.Runtime, func(bool) {}), cgroups: cgroupfs.Mount}
	var found []Finding
	for _, k := range allChecks {
		for _, f := range k.look(c, ctx) {
			f.Check = k.name
			if f.Grade != OK {
				f.Docs = k.docs
				if slices.Contains(ignored, k.name) {
					f.Grade = Ignored
				}
			}
			found = append(found, f)
		}
		if c.yields {
			break // nothing of the rest is ours
		}
	}
	return found
}

// WriteText writes findings for people.
func WriteText(w io.Writer, found []Finding) error {
	var text strings.Builder
	for _, f := range found {
		fmt.Fprintf(&text, "%-8s%s: %s\n", f.Grade, f.Check, oneline.Terminal(f.Found))
		for _, l := range f.Looked {
			fmt.Fprintf(&text, "        looked at: %s: %s\n", oneline.Terminal(l.Path), oneline.Terminal(l.Result))
		}
		if f.Change != "" {
			fmt.Fprintf(&text, "        change: %s\n", oneline.Terminal(f.Change))
		}
		if f.Docs != "" {
			fmt.Fprintf(&text, "        see: %s\n", f.Docs)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteJSON writes findings for scripts.
func WriteJSON(w io.Writer, found []Finding) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Findings []Finding `json:"findings"`
	}{append([]Finding{}, found...)})
}
