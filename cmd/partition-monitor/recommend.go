package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/command/recommend"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/output"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

const (
	flagForce      = "force"
	flagOf         = "partition"
	flagPrometheus = "prometheus"
	flagBy         = "by"
	flagMatch      = "match"
	flagHTTPConfig = "http.config.file" // the name that promtool uses
)

func recommendCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:  "recommend",
		Usage: "compute memoryLimit from what a partition has used",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagOf, Usage: "`NAME` of the partition (default: the system partition)"},
			&cli.BoolFlag{Name: flagForce, Usage: "write a section even if too little was measured for one, or the limit is not to be applied"},
			formatFlag("yaml", "json"),
			&cli.StringFlag{Name: flagPrometheus, Usage: "`URL` of a Prometheus that scrapes many nodes: a section for each shape of nodes"},
			&cli.StringFlag{Name: flagBy, Usage: "`LABEL` in that Prometheus whose values are the shapes", Value: "instance_type"},
			&cli.StringFlag{Name: flagMatch, Usage: "`MATCHERS` of PromQL for its nodes, such as 'cluster=\"production\"'"},
			&cli.StringFlag{Name: flagHTTPConfig, Usage: "`FILE` with passwords and certificates for it, as for promtool"},
		},
		Action: func(c *cli.Context) error {
			if c.IsSet(flagPrometheus) {
				return recommendFleet(c)
			}
			for _, name := range []string{flagBy, flagMatch, flagHTTPConfig} {
				if c.IsSet(name) {
					return usageError{fmt.Errorf("--%s: needs --%s", name, flagPrometheus)}
				}
			}
			n, err := nodeOf(c, n)
			if err != nil {
				return err
			}
			found, err := recommend.Read(recommend.Options{
				Node: n, Partition: partition.Name(c.String(flagOf)), Force: c.Bool(flagForce),
			})
			if err != nil {
				return err
			}
			if err := asYAML(c, recommend.WriteYAML)(c.App.Writer, found); err != nil {
				return err
			}
			showWarnings(c, found.Warnings)
			return found.Verdict()
		},
	}
}

// asYAML returns what writes an advice: its YAML is a section, and not the fields of its JSON.
func asYAML[T any](c *cli.Context, section func(io.Writer, T) error) func(io.Writer, T) error {
	if c.String(flagOutput) == "json" {
		return output.JSON[T]
	}
	return section
}

// showWarnings repeats the warnings: the pipe to try takes the comments, and whoever sits in front
// of it has to see them, too.
func showWarnings(c *cli.Context, warnings []string) {
	for _, warning := range warnings {
		fmt.Fprintf(c.App.ErrWriter, "partition-monitor: warning: %s\n", text.Terminal(warning))
	}
}

// recommendFleet shows a recommendation for each shape of nodes.
func recommendFleet(c *cli.Context) error {
	if _, given := givenRoot(c); given {
		return usageError{fmt.Errorf("--%s: cannot be used with --%s", flagRoot, flagPrometheus)}
	}
	o := recommend.FleetOptions{
		URL: c.String(flagPrometheus), HTTPConfig: c.String(flagHTTPConfig),
		By: c.String(flagBy), Match: c.String(flagMatch), Partition: partition.Name(c.String(flagOf)),
	}
	if err := o.Check(); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	found, err := recommend.ReadFleet(c.Context, o)
	if err != nil {
		return err
	}
	showWarnings(c, found.Warnings)
	return asYAML(c, recommend.WriteFleetYAML)(c.App.Writer, found)
}
