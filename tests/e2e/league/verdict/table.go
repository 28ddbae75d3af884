package verdict

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
)

// Read reads raw data.
func Read(r io.Reader) ([]Line, error) {
	var all []Line
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var l Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("raw data, line %d: %w", len(all)+1, err)
		}
		all = append(all, l)
	}
	return all, lines.Err()
}

// Table writes a row for each load, kind of node and keeper, in the order of their first rounds.
func Table(w io.Writer, all []Line) error {
	type cell struct{ load, node, keeper string }
	var loads []string
	var cells []cell
	rounds := map[cell][]Line{}
	for _, l := range all {
		c := cell{l.Load, l.Node, l.Keeper}
		if !slices.Contains(loads, l.Load) {
			loads = append(loads, l.Load)
		}
		if rounds[c] == nil {
			cells = append(cells, c)
		}
		rounds[c] = append(rounds[c], l)
	}
	text := "| load | node | keeper | rounds | victims | wrong victims | kernel kills | " +
		"threshold to first signal, ms; a # for each doubling of 10 | the neighbour's progress | s without an answer |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n"
	for _, load := range loads {
		for _, c := range cells {
			if c.load == load {
				text += row(c.load, c.node, c.keeper, rounds[c])
			}
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

func row(load, node, keeper string, rounds []Line) string {
	victims, wrong, kills := 0, 0, 0
	var millis []float64
	progress, silent := make([]float64, 0, len(rounds)), make([]float64, 0, len(rounds))
	for _, l := range rounds {
		victims, kills = victims+len(l.Victims), kills+l.KernelKills
		for _, v := range l.Victims {
			if v.Wrong {
				wrong++
			}
		}
		if l.Millis != nil {
			millis = append(millis, *l.Millis)
		}
		progress, silent = append(progress, l.Progress), append(silent, l.Silent)
	}
	times := "none"
	if len(millis) > 0 {
		median := figure.Median(millis)
		bar := strings.Repeat("#", int(max(0, math.Round(math.Log2(median/10)))))
		times = fmt.Sprintf("%.0f (%.0f to %.0f) %s", median, slices.Min(millis), slices.Max(millis), bar)
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %d | %d | %d | %s | %.2f (least %.2f) | %.1f at most |\n", load, node, keeper,
		len(rounds), victims, wrong, kills, times, figure.Median(progress), slices.Min(progress), slices.Max(silent))
}
