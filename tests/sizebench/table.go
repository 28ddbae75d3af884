package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// figures are the tables: the title of each, and a cell of it.
var figures = []struct {
	title string
	cell  func(result) string
}{
	{"Slack / partitions that exceed, with the 95 % interval, in %", func(r result) string {
		low, high := interval(r.Exceeded, r.draws)
		return fmt.Sprintf("%.1f / %.2f (%.2f-%.2f)", 100*r.Slack, 100*r.Exceeded, 100*low, 100*high)
	}},
	{"Evictions in 100 partitions", func(r result) string { return fmt.Sprintf("%.1f", 100*r.Evictions) }},
	{"Evictions in 100 partitions of nodes that lend a quarter of the limit", func(r result) string { return fmt.Sprintf("%.1f", 100*r.Lent) }},
	{"Slack less that of ours with as many exceedings, in points: ours is better where it is positive", func(r result) string {
		return fmt.Sprintf("%+.1f", 100*(r.Slack-r.ours))
	}},
	{"Slack with all limits multiplied so that 1 in 200 exceeds, in %: chosen with hindsight for each cell", func(r result) string {
		return fmt.Sprintf("%.1f", 100*r.hindsight)
	}},
}

// writeTable writes tables in Markdown, with a row for each contender and a column for each number
// of members.
func writeTable(out io.Writer, list []result) error {
	w := bufio.NewWriter(out)
	for len(list) > 0 {
		train := list[0].TrainMinutes
		end := 0
		for end < len(list) && list[end].TrainMinutes == train {
			end++
		}
		for _, figure := range figures {
			fmt.Fprintf(w, "Trained on %.1f hours, %d partitions a cell. %s:\n\n", float64(train)/60, list[0].draws, figure.title)
			writeFigure(w, list[:end], figure.cell)
		}
		list = list[end:]
	}
	return w.Flush()
}

// writeFigure writes the table of a figure. The results of a number of members follow each other.
func writeFigure(w io.Writer, list []result, cell func(result) string) {
	fmt.Fprint(w, "| members |")
	for i := 0; i < len(list); i += len(all) {
		fmt.Fprintf(w, " %d |", list[i].Members)
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(list)/len(all)))
	for j, by := range all {
		fmt.Fprintf(w, "| %s |", by.name)
		for i := j; i < len(list); i += len(all) {
			fmt.Fprintf(w, " %s |", cell(list[i]))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}
