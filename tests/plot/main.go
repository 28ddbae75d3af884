// Command plot draws each file NAME.csv of a folder as NAME.png beside it. A line of a file is a
// time in seconds, the name of a series, and a value. TestDashboards writes such files, one for
// each panel of the dashboard, so that people can look at them without Grafana.
//
//	go run . DIRECTORY
package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: plot DIRECTORY")
		os.Exit(2)
	}
	if err := all(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// all draws the files of a folder.
func all(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no file *.csv", dir)
	}
	for _, file := range files {
		if err := draw(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// most is the number of series that are named in a plot.
const most = 12

func draw(file string) error {
	names, series, err := read(file)
	if err != nil {
		return err
	}
	p := plot.New()
	p.Title.Text = strings.TrimSuffix(filepath.Base(file), ".csv")
	p.X.Label.Text = "seconds"
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, name := range names {
		line, err := plotter.NewLine(series[name])
		if err != nil {
			return err
		}
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i/7)
		p.Add(line)
		if i < most {
			p.Legend.Add(name, line)
		}
	}
	p.Y.Min = min(0, p.Y.Min)
	p.Y.Max += (p.Y.Max - p.Y.Min) / 2 // the names are there
	return p.Save(24*vg.Centimeter, 14*vg.Centimeter, strings.TrimSuffix(file, ".csv")+".png")
}

// read returns the series of a file, from its earliest time on, and their names in the order of the
// file.
func read(file string) (names []string, series map[string]plotter.XYs, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, nil, err
	}
	series = map[string]plotter.XYs{}
	first := math.Inf(1)
	for _, line := range lines {
		if len(line) != 3 {
			return nil, nil, fmt.Errorf("%q: want a time, a name and a value", line)
		}
		x, err := strconv.ParseFloat(line[0], 64)
		if err != nil {
			return nil, nil, err
		}
		y, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			return nil, nil, err
		}
		if math.IsNaN(y) || math.IsInf(y, 0) {
			continue // a quantile of no events
		}
		if _, known := series[line[1]]; !known {
			names = append(names, line[1])
		}
		series[line[1]] = append(series[line[1]], plotter.XY{X: x, Y: y})
		first = min(first, x)
	}
	for _, points := range series {
		for i := range points {
			points[i].X -= first
		}
	}
	return names, series, nil
}
