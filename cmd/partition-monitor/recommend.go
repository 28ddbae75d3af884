package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/command/recommend"
	"nodepartition/internal/host"
	"nodepartition/internal/node"
	"nodepartition/internal/node/options"
	"nodepartition/internal/oneline"
	"nodepartition/internal/promhistory"
	"nodepartition/internal/quantity"
	numbers "nodepartition/internal/recommend"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

const (
	flagPrometheus = "prometheus"
	flagBy         = "by"
	flagMatch      = "match"
	flagHTTPConfig = "http.config.file" // the name that promtool uses
)

func recommendCommand(n host.Node) *cli.Command {
	outputs := formats[recommend.Advice]{{"yaml", recommend.WriteYAML}, {"json", recommend.WriteJSON}}
	return &cli.Command{
		Name: "recommend",
		Usage: "compute memoryLimit, evictionHard, kubeReserved and systemReserved from the history of run --history, " +
			"as a section for try",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagAtLimit, Usage: "show, too, which pods would have been evicted at this `LIMIT`, such as 1Gi"},
			&cli.StringFlag{Name: flagSince, Usage: "the first `TIME` that counts, such as 3d or 2026-11-20 (default: all)"},
			&cli.BoolFlag{
				Name:  flagWithout,
				Usage: "take the limit without what leaks have added, even if more is in use and is evicted at once",
			},
			&cli.BoolFlag{Name: flagForce, Usage: "write a section even if the history is too short for one, or the limit not to be applied"},
			&cli.StringFlag{
				Name: options.FlagProtected, Usage: "`PODS` that are never evicted, as for run",
				Value: evict.DefaultProtected.String(),
			},
			partitionFlag(),
			outputs.flag(),
			&cli.StringSliceFlag{
				Name: flagDir,
				Usage: "`FOLDER` of the history (default: " + node.HistoryDir + "), such as a copy from another node; SHAPE=FOLDER several times: " +
					"a section for each shape of nodes",
			},
			&cli.StringFlag{Name: flagPrometheus, Usage: "`URL` of a Prometheus that scrapes many nodes: a section for each shape of nodes"},
			&cli.StringFlag{Name: flagBy, Usage: "`LABEL` in that Prometheus whose values are the shapes", Value: "instance_type"},
			&cli.StringFlag{Name: flagMatch, Usage: "`MATCHERS` of PromQL for its nodes, such as 'cluster=\"production\"'"},
			&cli.StringFlag{Name: flagHTTPConfig, Usage: "`FILE` with passwords and certificates for it, as for promtool"},
		},
		Action: func(c *cli.Context) error {
			fleet, err := isFleet(c)
			if err != nil {
				return err
			}
			if fleet {
				return recommendFleet(c)
			}
			applyServiceFlags(c, n)
			o := recommend.Options{
				Node: n, Dir: recommendDir(c, n), Partition: unitname.PartitionName(c.String(flagOf)),
				Now: time.Now(), WithoutLeaks: c.Bool(flagWithout), Force: c.Bool(flagForce),
			}
			if o.Since, err = timeFlag(c, flagSince, o.Now, time.Time{}); err != nil {
				return err
			}
			if o.Protected, err = evict.ParseProtected(c.String(options.FlagProtected)); err != nil {
				return usageError{fmt.Errorf("--%s=%w", options.FlagProtected, err)}
			}
			if o.AtLimit, err = atLimit(c); err != nil {
				return err
			}
			write, err := outputs.writer(c)
			if err != nil {
				return err
			}
			found, err := recommend.Read(c.Context, o)
			if err != nil {
				return err
			}
			if err := write(c.App.Writer, found); err != nil {
				return err
			}
			// The pipe to try takes the comments: whoever sits in front of it has to see them, too.
			for _, warning := range found.Warnings {
				fmt.Fprintf(c.App.ErrWriter, "partition-monitor: warning: %s\n", oneline.Terminal(warning))
			}
			return found.Verdict()
		},
	}
}

// recommendDir returns the only folder of the flag. Without the flag it returns the folder of the
// node n.
func recommendDir(c *cli.Context, n host.Node) string {
	if list := c.StringSlice(flagDir); len(list) > 0 {
		return list[0]
	}
	return n.Path(node.HistoryDir)
}

// atLimit returns the limit to compare with, 0 without one.
func atLimit(c *cli.Context) (uint64, error) {
	if !c.IsSet(flagAtLimit) {
		return 0, nil
	}
	limit, err := quantity.Parse(c.String(flagAtLimit))
	if err != nil || limit.Value() <= 0 {
		return 0, usageError{fmt.Errorf("--%s=%s: want a quantity such as 1Gi", flagAtLimit, c.String(flagAtLimit))}
	}
	return uint64(limit.Value()), nil
}

// isFleet reports whether the flags ask for several nodes. It returns an error if they do not
// agree.
func isFleet(c *cli.Context) (bool, error) {
	for _, name := range []string{flagBy, flagMatch, flagHTTPConfig} {
		if c.IsSet(name) && !c.IsSet(flagPrometheus) {
			return false, usageError{fmt.Errorf("--%s: want --%s beside it", name, flagPrometheus)}
		}
	}
	if c.IsSet(flagPrometheus) && c.IsSet(flagDir) {
		return false, usageError{fmt.Errorf("--%s: want no --%s beside it", flagPrometheus, flagDir)}
	}
	list := c.StringSlice(flagDir)
	return c.IsSet(flagPrometheus) || len(list) > 1 || len(list) == 1 && folder(list[0]).Shape != "", nil
}

// folder parses the value of --dir: a folder, or a shape and a folder.
func folder(text string) recommend.Folder {
	shape, path, ok := strings.Cut(text, "=")
	if !ok || strings.Contains(shape, "/") {
		return recommend.Folder{Path: text}
	}
	return recommend.Folder{Shape: shape, Path: path}
}

// recommendFleet shows a recommendation for each shape of nodes.
func recommendFleet(c *cli.Context) error {
	const window, most = 14 * 24 * time.Hour, 90 * 24 * time.Hour
	now := time.Now()
	partition := unitname.PartitionName(c.String(flagOf))
	o := recommend.FleetOptions{
		Partition:    partition,
		ShapeOptions: numbers.ShapeOptions{WithoutLeaks: c.Bool(flagWithout), Force: c.Bool(flagForce)},
	}
	var err error
	if o.Since, err = timeFlag(c, flagSince, now, time.Time{}); err != nil {
		return err
	}
	if o.AtLimit, err = atLimit(c); err != nil {
		return err
	}
	for _, text := range c.StringSlice(flagDir) {
		o.Folders = append(o.Folders, folder(text))
	}
	if c.IsSet(flagPrometheus) {
		span := window
		if c.IsSet(flagSince) {
			span = now.Sub(o.Since)
		}
		if span < time.Hour || span > most {
			return usageError{fmt.Errorf("--%s=%s: want between an hour and 90 days ago", flagSince, c.String(flagSince))}
		}
		o.Prometheus = promhistory.Options{
			URL: c.String(flagPrometheus), HTTPConfig: c.String(flagHTTPConfig),
			By: c.String(flagBy), Match: c.String(flagMatch), Partition: node.Shown(partition), Span: span,
		}
		if err := o.Prometheus.Check(); err != nil {
			return usageError{fmt.Errorf("--%w", err)}
		}
	}
	outputs := formats[recommend.FleetAdvice]{{"yaml", recommend.WriteFleetYAML}, {"json", recommend.WriteFleetJSON}}
	write, err := outputs.writer(c)
	if err != nil {
		return err
	}
	found, err := recommend.ReadFleet(c.Context, o)
	if err != nil {
		return err
	}
	if err := write(c.App.Writer, found); err != nil {
		return err
	}
	for _, warning := range found.AllWarnings() {
		fmt.Fprintf(c.App.ErrWriter, "partition-monitor: warning: %s\n", oneline.Terminal(warning))
	}
	return found.Verdict()
}
