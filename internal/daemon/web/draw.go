package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/samples"
	"nodepartition/internal/thresholds"
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

// chart is the usage of a partition over time, with its limit and its threshold.
type chart struct {
	// Used has an area for each stretch without a gap, Limit and Threshold a line.
	Used, Limit, Threshold []string
	// Happened has the places of evictions and kills.
	Happened    []int
	From, Until moment
	// Top is the usage at the upper edge, in bytes.
	Top uint64
	// Worst is the sample with the least margin, or without a limit the largest usage.
	Worst point
	Hours []hour
}

// point is a sample in a chart. Amounts are in bytes.
type point struct {
	At moment
	// Seconds is the time that it is about.
	Seconds                uint32
	Used, Limit, Threshold uint64
	// Events counts evictions and kills.
	Events int
}

// margin returns the memory that was left until the nearest threshold, negative beyond it. A
// partition without a limit has none.
func (p point) margin() int64 {
	if p.Limit == 0 {
		return math.MaxInt64
	}
	return int64(p.Limit) - int64(p.Threshold) - int64(p.Used)
}

// Margin returns the margin in words.
func (p point) Margin() string {
	switch m := p.margin(); {
	case p.Limit == 0:
		return "no limit"
	case m < 0:
		return bytesize.Text(uint64(-m)) + " short"
	default:
		return bytesize.Text(uint64(m))
	}
}

// worse reports whether p is the one to show of both.
func (p point) worse(than point) bool {
	if p.margin() != than.margin() {
		return p.margin() < than.margin()
	}
	return p.Used > than.Used
}

// hour has the worst sample of an hour, and the number of events in it.
type hour struct {
	point
	From moment
}

// newChart draws the samples of the last historyShown; nil if there are none.
func newChart(minutes []samples.Sample, now time.Time) *chart {
	points := pointsOf(minutes, now)
	if len(points) == 0 {
		return nil
	}
	c := &chart{
		From: moment{now.Add(-historyShown), now}, Until: moment{now, now}, Worst: points[0],
	}
	for _, p := range points {
		c.Top = max(c.Top, p.Used, p.Limit)
		if p.worse(c.Worst) {
			c.Worst = p
		}
		if p.Events > 0 {
			c.Happened = append(c.Happened, c.x(p.At.Time))
		}
	}
	for _, stretch := range stretches(points) {
		c.draw(stretch)
	}
	c.Hours = hoursOf(points)
	return c
}

// pointsOf returns the samples of the last historyShown that have the partition.
func pointsOf(minutes []samples.Sample, now time.Time) []point {
	var points []point
	for i := range minutes {
		s := &minutes[i]
		if s.Partition == nil || !s.Time.After(now.Add(-historyShown)) || s.Time.After(now) {
			continue
		}
		points = append(points, point{
			At: moment{s.Time, now}, Seconds: s.Seconds,
			Used: s.Partition.UsedPeakBytes, Limit: s.Partition.LimitBytes,
			Threshold: thresholds.Nearest(s.Partition.HardBytes, s.Partition.SoftBytes),
			Events:    len(s.Partition.Evicted) + int(s.Partition.KilledAtLimit+s.Partition.KilledElsewhere),
		})
	}
	return points
}

// stretches divides points where samples are missing.
func stretches(points []point) [][]point {
	const gap = 2 * time.Minute
	var list [][]point
	for i, p := range points {
		if i == 0 || p.At.Sub(points[i-1].At.Time) > gap+time.Duration(p.Seconds)*time.Second {
			list = append(list, nil)
		}
		list[len(list)-1] = append(list[len(list)-1], p)
	}
	return list
}

// draw adds a stretch without a gap.
func (c *chart) draw(points []point) {
	var used, limit, threshold steps
	from := c.x(points[0].At.Add(-time.Duration(points[0].Seconds) * time.Second))
	first := from
	for _, p := range points {
		to := c.x(p.At.Time)
		used.add(from, to, c.y(p.Used), true)
		limit.add(from, to, c.y(p.Limit), p.Limit > 0)
		threshold.add(from, to, c.y(p.Limit-min(p.Threshold, p.Limit)), p.Limit > 0 && p.Threshold > 0)
		from = to
	}
	c.Used = append(c.Used, fmt.Sprintf("%sV%dH%dZ", used.path(), chartHeight, first))
	for list, path := range map[*[]string]string{&c.Limit: limit.path(), &c.Threshold: threshold.path()} {
		if path != "" {
			*list = append(*list, path)
		}
	}
}

// steps is a line of level parts. Parts of one level are one, so that the line can be dashed.
type steps struct {
	text strings.Builder
	on   bool
	x, y int // the end of the line
}

// add adds a level part, or a gap.
func (s *steps) add(from, to, y int, is bool) {
	switch {
	case s.on && (!is || y != s.y):
		fmt.Fprintf(&s.text, "H%d", s.x)
		if is {
			fmt.Fprintf(&s.text, "V%d", y)
		}
	case is && !s.on:
		fmt.Fprintf(&s.text, "M%d %d", from, y)
	}
	s.on, s.x, s.y = is, to, y
}

// path returns the line, empty if all of it is a gap.
func (s *steps) path() string {
	if s.on {
		return fmt.Sprintf("%sH%d", s.text.String(), s.x)
	}
	return s.text.String()
}

// x returns the place of a time.
func (c *chart) x(at time.Time) int {
	share := float64(at.Sub(c.From.Time)) / float64(c.Until.Sub(c.From.Time))
	return int(math.Round(chartWidth * min(max(share, 0), 1)))
}

// y returns the place of a usage. The largest is a little below the edge, so that its line is seen.
func (c *chart) y(bytes uint64) int {
	const edge = 4
	if c.Top == 0 {
		return chartHeight
	}
	return chartHeight - int(math.Round((chartHeight-edge)*float64(min(bytes, c.Top))/float64(c.Top)))
}

// hoursOf returns the worst sample of each hour, the newest first.
func hoursOf(points []point) []hour {
	var hours []hour
	for _, p := range points {
		from := p.At.Add(-1).Truncate(time.Hour) // a sample is about the time before it
		if len(hours) == 0 || !hours[0].From.Equal(from) {
			hours = append([]hour{{p, moment{from, p.At.now}}}, hours...)
			continue
		}
		h := &hours[0]
		events := h.Events + p.Events
		if p.worse(h.point) {
			h.point = p
		}
		h.Events = events
	}
	return hours
}
