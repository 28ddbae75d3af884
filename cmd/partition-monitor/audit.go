package main

import (
	"github.com/urfave/cli/v2"

	findings "nodepartition/internal/audit"
	"nodepartition/internal/command/audit"
	"nodepartition/internal/host"
	"nodepartition/internal/node/options"
)

func auditCommand(n host.Node) *cli.Command {
	outputs := formats[findings.Report]{{"text", audit.WriteText}, {"json", audit.WriteJSON}}
	return &cli.Command{
		Name: "audit",
		Usage: "compare the cgroups, kernel parameters and daemons of the node with what kubelet, runtime and systemd set: " +
			"exit status 1 if something differs, 2 if the node cannot be audited",
		Flags: []cli.Flag{
			podsAPIFlag(),
			outputs.flag(),
		},
		Action: func(c *cli.Context) error {
			n, err := nodeOf(c, n)
			if err != nil {
				return err
			}
			applyServiceFlags(c, n)
			write, err := outputs.writer(c)
			if err != nil {
				return err
			}
			report, err := audit.Node(c.Context, audit.Options{Node: n, PodsAPI: n.Path(c.String(options.FlagPods))})
			if err != nil {
				return unreadable{err}
			}
			if err := write(c.App.Writer, report); err != nil {
				return err
			}
			if len(report.Findings) > 0 {
				return problemsFound{}
			}
			return nil
		},
	}
}
