package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/monitor/trial"
)

func keepCommand() *cli.Command {
	return &cli.Command{
		Name:  "keep",
		Usage: "keep the section that is tried: write it to " + kubeletconfig.OverridePath + ", and let its time run out without effect",
		Action: func(c *cli.Context) error {
			if err := trial.Keep(c.Context); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.App.Writer, "Kept, in "+kubeletconfig.OverridePath+".")
			return err
		},
	}
}
