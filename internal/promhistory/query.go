package promhistory

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
)

//go:embed queries
var queryText string

// query is a line of the file queries.
type query struct{ name, expr string }

// queries returns the queries for a partition.
func queries(o Options) []query {
	fixed := strings.NewReplacer(
		"PARTITION", string(o.Partition), "SLICE", o.Partition.Slice(), "BY", strings.Join(labels(o.By), ", "),
	)
	var list []query
	for line := range strings.Lines(queryText) {
		name, expr, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok && !strings.HasPrefix(name, "#") {
			list = append(list, query{name, fixed.Replace(expr)})
		}
	}
	return list
}

// labels lists the labels that tell nodes and shapes apart.
func labels(by string) []string {
	return slices.Compact(slices.Sorted(slices.Values([]string{labelCluster, labelNode, by})))
}

// fill returns a query for some nodes.
func (r *reader) fill(expr string, targets []target) string {
	more := ""
	if r.options.Match != "" {
		more = ", " + r.options.Match
	}
	names := make([]string, 0, len(targets))
	for _, t := range targets {
		names = append(names, regexp.QuoteMeta(t.name))
	}
	slices.Sort(names)
	nodes := labelNode + "=~" + quote(strings.Join(slices.Compact(names), "|"))
	return strings.NewReplacer("NODES", nodes+more, "MATCH", more, "PARTITION", string(r.options.Partition)).Replace(expr)
}

// quote returns a string of PromQL.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
