package check

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/text"
)

// Node checks the node, in the order in which an operator needs the results: first the
// configuration. Findings of the checks in ignored have the grade Ignored, unless they are OK.
func Node(ctx context.Context, o node.Options, ignored []string) []state.Finding {
	found := recorded(o.Node)
	if found == nil {
		found = look(ctx, o)
	}
	for i := range found {
		f := &found[i]
		if f.Grade == state.OK {
			continue
		}
		f.Docs = filepath.Join(prefix(), pages, f.Check+".md")
		if slices.Contains(ignored, f.Check) {
			f.Grade = state.Ignored
		}
	}
	return found
}

// look runs the checks.
func look(ctx context.Context, o node.Options) (found []state.Finding) {
	c := &checks{
		options: o, cgroups: o.Node.Cgroups,
		runtime: node.NewRuntime(o.Node, o.Runtime, node.AskSystemctl(o.Node), func(bool) {}),
	}
	for _, k := range allChecks {
		for _, f := range c.run(ctx, k) {
			f.Check = k.name
			found = append(found, f)
		}
		if c.yields {
			break // the kubelet makes the partition itself
		}
	}
	return found
}

// prefix returns the folder below which this program and its documentation are installed.
func prefix() string {
	program, err := os.Executable()
	if dir := filepath.Dir(program); err == nil && filepath.Base(dir) == "bin" {
		return filepath.Dir(dir)
	}
	return "/usr"
}

// run runs a check. On another node it leaves out those that ask a service of this one.
func (c *checks) run(ctx context.Context, k check) []state.Finding {
	n := c.options.Node
	switch err := n.NoCgroups(); {
	//guard: the credentials of another node are not used
	case n.Answers() != nil && k.needs == api:
		return nil
	case n.Answers() != nil && k.needs == services:
		return saying(state.Warning, "%v", n.Answers())
	case err != nil && k.needs == cgroupFiles:
		return saying(state.Warning, "%v", err)
	}
	return k.look(c, ctx)
}

// grades lists the grades in the order in which people need them.
func grades() []state.Grade {
	return []state.Grade{state.Error, state.Warning, state.Ignored, state.OK}
}

// WriteText writes findings for people: errors first, and how many there are at the end. Checks
// that have found the same share a line.
func WriteText(w io.Writer, found []state.Finding) error {
	var content strings.Builder
	lines := joined(found)
	slices.SortStableFunc(lines, func(a, b state.Finding) int {
		return slices.Index(grades(), a.Grade) - slices.Index(grades(), b.Grade)
	})
	const margin = 8 // behind the grade
	for _, f := range lines {
		fmt.Fprintf(&content, "%-*s%s: %s\n", margin, f.Grade, f.Check, text.Terminal(f.Found))
		below := func(format string, args ...any) {
			fmt.Fprintf(&content, "%*s%s\n", margin, "", fmt.Sprintf(format, args...))
		}
		for _, l := range f.Looked {
			below("file: %s: %s", text.Terminal(l.Path), text.Terminal(l.Result))
		}
		if f.Change != "" {
			below("change: %s", text.Terminal(f.Change))
		}
		if f.Docs != "" {
			below("see: %s", f.Docs)
		}
	}
	fmt.Fprintf(&content, "%s\n", counts(found))
	return output.Write(w, content.String(), margin, output.Severities)
}

// joined joins findings that say the same, such as "not asked" of each check that asks a service:
// the first has the names of all checks. Pages of the documentation that differ are left out.
func joined(found []state.Finding) []state.Finding {
	type said struct {
		grade         state.Grade
		found, change string
	}
	at := map[said]int{}
	var lines []state.Finding
	for _, f := range found {
		key := said{f.Grade, f.Found, f.Change}
		i, before := at[key]
		if !before || f.Looked != nil {
			at[key] = len(lines)
			lines = append(lines, f)
			continue
		}
		if !slices.Contains(strings.Split(lines[i].Check, ", "), f.Check) {
			lines[i].Check += ", " + f.Check
		}
		if lines[i].Docs != f.Docs {
			lines[i].Docs = ""
		}
	}
	return lines
}

// counts says how many findings have each grade, such as "2 errors, 1 warning, 17 ok".
func counts(found []state.Finding) string {
	number := map[state.Grade]int{}
	for _, f := range found {
		number[f.Grade]++
	}
	plural := func(n int, one, more string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, more)
	}
	parts := []string{plural(number[state.Error], "error", "errors"), plural(number[state.Warning], "warning", "warnings")}
	if number[state.Ignored] > 0 {
		parts = append(parts, fmt.Sprintf("%d ignored", number[state.Ignored]))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d ok", number[state.OK])), ", ")
}

// WriteJSON writes findings for scripts.
func WriteJSON(w io.Writer, found []state.Finding) error {
	return output.JSONWithCommands(w, state.Findings{Findings: append([]state.Finding{}, found...)})
}
