package main

import (
	"bufio"
	"fmt"
	"io"
)

// writeTable writes a table in Markdown: a row for each contender, and a column for each number of
// members. A cell has the slack, the exceedings with their interval, and the slack of ours at as many.
func writeTable(out io.Writer, list []result) error {
	w := bufio.NewWriter(out)
	train := 0
	for i, r := range list {
		if r.TrainMinutes != train {
			train = r.TrainMinutes
			fmt.Fprintf(w, "\nTrained on %.1f hours, %d partitions a cell:\n\n", float64(train)/60, r.draws)
			fmt.Fprintln(w, "| contender | members | slack | exceeded | 95 % of it | evictions in 100 partitions | slack of ours at as many exceedings |")
			fmt.Fprintln(w, "|---|---|---|---|---|---|---|")
		}
		low, high := interval(r.Exceeded, r.draws)
		fmt.Fprintf(w, "| %s | %d | %.1f %% | %.2f %% | %.2f-%.2f | %.1f | %.1f %% |\n",
			r.Contender, r.Members, 100*r.Slack, 100*r.Exceeded, 100*low, 100*high, 100*r.Evictions, 100*list[i].ours)
	}
	return w.Flush()
}
