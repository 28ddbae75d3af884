package check

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/state"
	"node-partition.io/node-partition/internal/text"
)

// Node checks the node, in the order in which an operator needs the results: first the
// configuration. Findings of the checks in ignored have the grade Ignored, unless they are OK.
func Node(ctx context.Context, o node.Options, ignored []string) state.Findings {
	found, from := recorded(o.Node), File
	if found == nil {
		found, from = look(ctx, o), ""
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
	return state.Findings{Findings: found, From: from}
}

// look runs the checks.
func look(ctx context.Context, o node.Options) []state.Finding {
	c := &checks{
		options: o, cgroups: o.Node.Cgroups,
		runtime:  node.NewRuntime(o.Node, o.Runtime, node.AskSystemctl(o.Node), func(bool) {}),
		settings: sync.OnceValues(func() (node.KubeletSettings, error) { return node.ReadKubeletSettings(o.Node.Root, nil) }),
	}
	found := []state.Finding{} // [] in JSON, and not null
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
var grades = []state.Grade{state.Error, state.Warning, state.Ignored, state.OK}

// Text returns what writes findings for people: errors first, and how many there are at the end.
// What is well, or ignored, and files that were not read, are written if all is set. Checks that
// have found the same share a line.
func Text(all bool) func(io.Writer, state.Findings) error {
	return func(w io.Writer, found state.Findings) error {
		var content strings.Builder
		lines := joined(found.Findings)
		slices.SortStableFunc(lines, func(a, b state.Finding) int {
			return slices.Index(grades, a.Grade) - slices.Index(grades, b.Grade)
		})
		for _, f := range lines {
			if !all && (f.Grade == state.OK || f.Grade == state.Ignored) {
				continue
			}
			fmt.Fprintf(&content, "%-9s%s: %s\n", f.Grade, f.Check, text.Terminal(f.Found))
			for _, l := range f.Looked {
				if all || l.WasRead() {
					fmt.Fprintf(&content, "%9sfile: %s: %s\n", "", text.Terminal(l.Path), text.Terminal(l.Result))
				}
			}
			if f.Change != "" {
				fmt.Fprintf(&content, "%9schange: %s\n", "", text.Terminal(f.Change))
			}
		}
		if found.From != "" {
			fmt.Fprintf(&content, "%s has these findings: the files beside it were not looked at\n", found.From)
		}
		fmt.Fprintln(&content, counts(found.Findings))
		return output.Write(w, content.String(), output.Severities)
	}
}

// joined joins findings that say the same, such as "not asked" of each check that asks a service:
// the first has the names of all checks.
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
	}
	return lines
}

// counts says how many findings have each grade, such as "2 errors, 1 warning, 17 ok", and where
// there is more about them.
func counts(found []state.Finding) string {
	number := map[state.Grade]int{}
	for _, f := range found {
		number[f.Grade]++
	}
	var parts []string
	for _, grade := range grades {
		n, word := number[grade], string(grade)
		if n != 1 && (grade == state.Error || grade == state.Warning) {
			word += "s"
		}
		if n > 0 || grade != state.Ignored {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return strings.Join(parts, ", ") + " (-v lists all; partition-monitor explain NAME explains a check; status has pods and evictions)"
}
