package collect

import (
	"strings"
)

// sample is a line of a metric that is kept: one of ours, or of Prometheus' client library.
var sample = pattern(`^((?:nodepartition|kubelet_partition|go|process)_[a-z0-9_]+)(?:\{(.*)\})? (\S+)$`)

// label is a label of a sample.
var label = pattern(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)

// metrics returns the samples of our metrics, whose labels have gone through text.
func metrics(page string) string {
	var out strings.Builder
	for line := range strings.Lines(page) {
		match := sample().FindStringSubmatch(strings.TrimSpace(line))
		if match == nil || !isFigure(match[3]) {
			continue
		}
		out.WriteString(match[1])
		found := label().FindAllStringSubmatch(match[2], -1)
		labels := make([]string, 0, len(found))
		for _, l := range found {
			labels = append(labels, l[1]+`="`+text(l[2])+`"`)
		}
		if len(labels) > 0 {
			out.WriteString("{" + strings.Join(labels, ",") + "}")
		}
		out.WriteString(" " + match[3] + "\n")
	}
	return out.String()
}

var figure = pattern(`^([+-]?[0-9.]+(e[+-]?[0-9]+)?|[+-]Inf|NaN)$`)

func isFigure(s string) bool { return figure().MatchString(s) }
