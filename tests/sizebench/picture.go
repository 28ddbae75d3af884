package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// The picture has a panel for each number of members at the first length of training. Slack grows
// to the right, and exceedings upwards.
const (
	panelWidth, panelHeight, panelGap = 300.0, 220.0, 56.0
	mostSlack, mostExceeded           = 0.8, 0.2
)

// colours has one for each contender, in the order of all.
var colours = []string{"#0b6", "#888", "#36c", "#69f", "#c3c", "#e80", "#c33", "#555", "#bbb"}

// writePicture draws each contender as a point, and as a line what it would have with all of its
// limits multiplied by a factor.
func writePicture(out io.Writer, cells []cell) error {
	w := bufio.NewWriter(out)
	var panels []cell
	for _, c := range cells {
		if c.train == cells[0].train {
			panels = append(panels, c)
		}
	}
	rows := (len(panels) + 2) / 2 // the legend takes one
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" `+
		`font-family="sans-serif" font-size="11">`+"\n",
		2*(panelWidth+panelGap)+20, float64(rows)*(panelHeight+panelGap)+10)
	fmt.Fprintln(w, `<rect width="100%" height="100%" fill="#fff"/>`)
	for i, c := range panels {
		at(w, i)
		fmt.Fprintf(w, `<text y="-8" font-weight="bold">%d members, %.1f hours</text>`+"\n", c.members, float64(c.train)/60)
		axes(w)
		for j := range all {
			line(w, c, j)
		}
		fmt.Fprintln(w, "</g>")
	}
	at(w, len(panels))
	for j, by := range all {
		fmt.Fprintf(w, `<circle cx="6" cy="%d" r="4" fill="%s"/><text x="16" y="%d">%s</text>`+"\n",
			10+18*j, colours[j], 14+18*j, by.name)
	}
	fmt.Fprintln(w, "</g>\n</svg>")
	return w.Flush()
}

// at begins the panel of a number: two beside each other.
func at(w io.Writer, panel int) {
	x, y := 44+float64(panel%2)*(panelWidth+panelGap), 26+float64(panel/2)*(panelHeight+panelGap)
	fmt.Fprintf(w, `<g transform="translate(%.0f %.0f)">`+"\n", x, y)
}

// place returns where a slack and a share of exceedings are. The axis upwards is a root: what is
// below 1 % matters most.
func place(slack, exceeded float64) (x, y float64) {
	return panelWidth * min(1, max(0, slack/mostSlack)), panelHeight * (1 - math.Sqrt(min(1, exceeded/mostExceeded)))
}

func axes(w io.Writer) {
	fmt.Fprintf(w, `<rect width="%.0f" height="%.0f" fill="none" stroke="#999"/>`+"\n", panelWidth, panelHeight)
	for _, slack := range []float64{0, 0.2, 0.4, 0.6, 0.8} {
		x, _ := place(slack, 0)
		fmt.Fprintf(w, `<text x="%.0f" y="%.0f" text-anchor="middle">%.0f %%</text>`+"\n", x, panelHeight+14, 100*slack)
	}
	for _, exceeded := range []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2} {
		_, y := place(0, exceeded)
		fmt.Fprintf(w, `<text x="-4" y="%.0f" text-anchor="end">%g %%</text>`+"\n", y+4, 100*exceeded)
		fmt.Fprintf(w, `<line x2="%.0f" y1="%.1f" y2="%.1f" stroke="#eee"/>`+"\n", panelWidth, y, y)
	}
	fmt.Fprintf(w, `<text x="%.0f" y="%.0f" text-anchor="middle">slack; upwards: partitions that ever exceed</text>`+"\n", panelWidth/2, panelHeight+28)
}

// line draws a contender. The oracle knows the rest: it has a point alone.
func line(w io.Writer, c cell, contender int) {
	slack, exceeded := c.at(contender, 1)
	x, y := place(slack, exceeded)
	if contender < len(all)-1 {
		fmt.Fprintf(w, `<polyline fill="none" stroke="%s" stroke-opacity="0.6" points="`, colours[contender])
		for share := 0.0; share <= mostExceeded; share += 0.0025 {
			slack, exceeded := c.at(contender, c.factor(contender, share))
			px, py := place(slack, exceeded)
			fmt.Fprintf(w, "%.1f,%.1f ", px, py)
		}
		fmt.Fprintln(w, `"/>`)
	}
	fmt.Fprintf(w, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", x, y, colours[contender])
}
