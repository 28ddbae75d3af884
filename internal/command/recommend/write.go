package recommend

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"node-partition.io/node-partition/internal/sizing"
	"node-partition.io/node-partition/internal/text"
)

// WriteYAML writes an advice for people, as a file that "partition-monitor try" takes: what the
// limit stands on is in comments.
func WriteYAML(w io.Writer, a Advice) error {
	claim := a.Claim()
	if a.censored {
		claim = text.Bytes(a.LimitBytes) + " at least: pods were evicted, and what they would have used is not known"
	}
	comment(w, "memoryLimit of partition %s, %s.", a.Partition, claim)
	if err := table(w, a.reasons()); err != nil {
		return err
	}
	remarks(w, a.Warnings, a.NoSection)
	if a.Verdict() == nil { // else the remarks say why there is no section
		text, err := a.document()
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	return nil
}

// comment writes one line that YAML ignores, whatever its arguments contain.
func comment(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "# %s\n", text.Terminal(fmt.Sprintf(format, args...)))
}

// table writes rows as comments.
func table(w io.Writer, rows [][]string) error {
	var content bytes.Buffer
	t := tabwriter.NewWriter(&content, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = text.Terminal(cell)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(content.String()) {
		fmt.Fprintf(w, "#   %s\n", strings.TrimRight(line, " \n"))
	}
	return nil
}

func remarks(w io.Writer, warnings, noSection []string) {
	for _, warning := range warnings {
		comment(w, "warning: %s", warning)
	}
	for _, reason := range noSection {
		comment(w, "no section: %s", reason)
	}
}

// WriteFleetYAML writes a document for each shape of nodes.
func WriteFleetYAML(w io.Writer, a FleetAdvice) error {
	remarks(w, a.Warnings, nil)
	for i := range a.Shapes {
		s := &a.Shapes[i]
		fmt.Fprintln(w, "---")
		comment(w, "memoryLimit of partition %s on nodes of %s, %s: what %s needs.", a.Partition, s.Shape, text.Bytes(s.LimitBytes), s.Node)
		measured := ""
		if s.MeasuredSeconds > 0 { // else a warning says that it is not known
			measured = " Half of them have measured " + sizing.Text(s.measured()) + " or longer."
		}
		comment(w, "%s do for 9 in 10 of %d nodes.%s", text.Bytes(s.MostBytes), s.Nodes, measured)
		text, err := a.document(s)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}
