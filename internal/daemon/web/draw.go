package web

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The pictures are SVG in the page: their sizes are attributes, which the policy allows, and their
// colours are classes of page.css. What they show is in the text beside them, too.

// barWidth is the width of a bar in its own units. The page stretches it.
const barWidth = 1000

// bar is the memory of a partition from nothing to its limit.
type bar struct {
	Used, Peak int
	// Hard and Soft are the usage at which a pod is evicted, nil without that threshold.
	Hard, Soft *int
}

func newBar(m memoryView) bar {
	if !m.Limited || m.Limit == 0 {
		return bar{}
	}
	at := func(bytes uint64) int {
		return int(math.Round(barWidth * float64(min(bytes, m.Limit)) / float64(m.Limit)))
	}
	below := func(threshold uint64) *int {
		if threshold == 0 {
			return nil
		}
		x := at(m.Limit - min(threshold, m.Limit))
		return &x
	}
	return bar{Used: at(m.Used), Peak: at(m.UsedPeak), Hard: below(m.Hard), Soft: below(m.Soft)}
}

// The size of a chart in its own units.
const (
	chartWidth  = 720
	chartHeight = 120
)

// chart is what a partition has used in the last day, with the limit and the threshold of today.
type chart struct {
	// Used has an area for each stretch without a gap.
	Used []string
	// Limit and Threshold are the places of their lines, nil without them.
	Limit, Threshold *int
	From, Until      moment
	// Top is the usage at the upper edge, in bytes.
	Top uint64
	// Most is the minute with the largest usage.
	Most point
	// Hours has the largest usage of each hour, the newest first.
	Hours []point
}

// point is the largest usage of a time in bytes, with its end.
type point struct {
	At   moment
	Used uint64
}

// newChart draws the minutes that end at a time; nil if nothing was measured.
func newChart(used []uint64, to time.Time, m memoryView, now time.Time) *chart {
	if len(used) == 0 || slices.Max(used) == 0 {
		return nil
	}
	first := to.Add(-time.Duration(len(used)) * time.Minute)
	c := &chart{From: moment{first, now}, Until: moment{to, now}, Top: slices.Max(used)}
	if m.Limited {
		c.Top = max(c.Top, m.Limit)
		limit := c.y(m.Limit)
		c.Limit = &limit
		if nearest := m.Nearest(); nearest > 0 {
			threshold := c.y(m.Limit - min(nearest, m.Limit))
			c.Threshold = &threshold
		}
	}
	c.draw(used)
	for i, bytes := range used {
		at := point{moment{first.Add(time.Duration(i+1) * time.Minute), now}, bytes}
		if bytes > c.Most.Used {
			c.Most = at
		}
		if i%60 == 0 {
			c.Hours = slices.Insert(c.Hours, 0, at)
		}
		c.Hours[0] = point{at.At, max(c.Hours[0].Used, bytes)}
	}
	return c
}

// column is the number of minutes of which the largest is drawn.
const column = 4

// draw adds the areas of the stretches without a gap.
func (c *chart) draw(used []uint64) {
	var area strings.Builder
	for from := 0; from < len(used); from += column {
		to := min(from+column, len(used))
		most := slices.Max(used[from:to])
		if most > 0 {
			if area.Len() == 0 {
				fmt.Fprintf(&area, "M%d %d", from*chartWidth/len(used), chartHeight)
			}
			fmt.Fprintf(&area, "V%dH%d", c.y(most), to*chartWidth/len(used))
		}
		if area.Len() > 0 && (most == 0 || to == len(used)) {
			c.Used = append(c.Used, fmt.Sprintf("%sV%dZ", area.String(), chartHeight))
			area.Reset()
		}
	}
}

// y returns the place of a usage. The largest is a little below the edge, so that its line is seen.
func (c *chart) y(bytes uint64) int {
	const edge = 4
	return chartHeight - int(math.Round((chartHeight-edge)*float64(min(bytes, c.Top))/float64(c.Top)))
}
