// Command nodebench measures the cost of partition-monitor on nodes of tests/lab, as ratios to
// references in the same run. It prints them with their limits, and exits with status 1 if one is
// exceeded. "make bench" calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodebench:", err)
		os.Exit(1)
	}
}

// timeout bounds everything. It is more than twice the usual time.
const timeout = 70 * time.Minute

// options holds the flags.
type options struct {
	flavours []string
	parts    []string
	rounds   int
	pods     int
	idleFor  time.Duration
	monitor  string
}

func (o options) wants(part string) bool { return slices.Contains(o.parts, part) }

func run(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	o := options{}
	var flavours, parts string
	flags := flag.NewFlagSet("nodebench", flag.ExitOnError)
	flags.StringVar(
		&flavours,
		"flavours",
		"trixie",
		"kinds of nodes, whose runtime has NRI",
	)
	flags.StringVar(
		&parts,
		"parts",
		"cost,idle",
		"what to measure",
	)
	flags.IntVar(&o.rounds, "rounds", 30, "rounds of four containers each way")
	flags.IntVar(&o.pods, "pods", 100, "pods of the partition of an idle node")
	flags.DurationVar(&o.idleFor, "idle", 2*time.Minute, "how long to watch an idle node")
	flags.StringVar(&o.monitor, "monitor", "", "another build of partition-monitor than that of this tree")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.flavours, o.parts = strings.Split(flavours, ","), strings.Split(parts, ",")
	start := time.Now()
	progress := func(line string) { fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(start).Seconds(), line) }
	b, err := build(o, progress)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	var all []measured
	for _, flavour := range o.flavours {
		m, err := b.node(ctx, flavour)
		all = append(all, m...)
		if err != nil {
			return errors.Join(err, show(os.Stdout, all))
		}
	}
	progress("done")
	return show(os.Stdout, all)
}

// measured is a figure of one kind of node.
type measured struct {
	flavour string
	figure.Figure
}

// show prints a table, and returns an error that names the figures that are above their limits.
func show(w io.Writer, all []measured) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tFIGURE\tMEASURED\t95 % BETWEEN\tLIMIT\t")
	var missed []error
	for _, m := range all {
		value := strings.TrimSpace(number(m.Value) + " " + m.Unit)
		between, limit, note := "", "", m.Note
		if m.High != 0 {
			between = number(m.Low) + " and " + number(m.High)
		}
		if m.Limit != nil {
			limit = number(*m.Limit) + " "
			if m.Missed() {
				limit += "missed"
				missed = append(
					missed,
					fmt.Errorf("%s: %s: %s, and may be %s", m.flavour, strings.TrimSpace(m.Name), value, number(*m.Limit)),
				)
			} else {
				limit += "ok"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", m.flavour, m.Name, value, between, limit, note)
	}
	return errors.Join(table.Flush(), errors.Join(missed...))
}

// number formats a value with three significant digits.
func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v < 0.1:
		return fmt.Sprintf("%.4f", v)
	case v < 10:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
