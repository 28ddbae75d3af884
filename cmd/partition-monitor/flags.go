package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/nri"
)

// serviceFlags returns the flags of run that a command takes, too, followed by more. The help of
// run has them.
func serviceFlags(more ...cli.Flag) []cli.Flag {
	flags := commonFlags()
	for _, f := range flags {
		switch f := f.(type) {
		case choice:
			f.Hidden = true
		case *cli.StringFlag:
			f.Hidden = true
		case *cli.DurationFlag:
			f.Hidden = true
		case *cli.BoolFlag:
			f.Hidden = true
		}
	}
	return append(flags, more...)
}

// likeService is the part of a description about serviceFlags.
const likeService = "It takes the options of run, too. Their default is what the running service has."

// commonFlags returns the flags that run, status, check and collect have in common, followed by
// more.
func commonFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		textFlag(node.FlagRuntime, ""),
		textFlag(node.FlagNRI, nri.DefaultSocket),
		podsAPIFlag(),
		textFlag(node.FlagListen, "127.0.0.1:9948"),
		choiceFlag(node.FlagMove, node.FlagUsage(node.FlagMove),
			string(podmove.Auto), string(podmove.OnlyRestart), string(podmove.OnlyLive), string(podmove.Never)),
		choiceFlag(node.FlagEviction, node.FlagUsage(node.FlagEviction), "on", "off", "dry-run"),
		textFlag(node.FlagProtected, evict.DefaultProtected.String()),
		durationFlag(node.FlagCooldown, 5*time.Minute),
		textFlag(node.FlagKubeconfig, node.KubeconfigAuto),
		choiceFlag(node.FlagEvents, node.FlagUsage(node.FlagEvents), "on", "off"),
		boolFlag(node.FlagNodeStatus),
	}, more...)
}

func podsAPIFlag() cli.Flag { return textFlag(node.FlagPods, kubelet.PodsSocket) }

func textFlag(name, value string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: node.FlagUsage(name), Value: value}
}

func durationFlag(name string, value time.Duration) cli.Flag {
	return &cli.DurationFlag{Name: name, Usage: node.FlagUsage(name), Value: value}
}

func boolFlag(name string) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: node.FlagUsage(name)}
}

// readOptions returns the options of the common flags, or a usageError.
func readOptions(c *cli.Context, n host.Node) (node.Options, error) {
	o := node.Options{
		Node:    n,
		Runtime: n.Endpoint(c.String(node.FlagRuntime)),
		NRI:     n.Path(c.String(node.FlagNRI)),
		PodsAPI: n.Path(c.String(node.FlagPods)),
		Listen:  c.String(node.FlagListen),
		Mode:    podmove.Mode(c.String(node.FlagMove)),
		Events:  c.String(node.FlagEvents) == "on",
	}
	o.NodeStatus = c.Bool(node.FlagNodeStatus)
	var err error
	o.Eviction, err = readEviction(c, n)
	return o, err
}

// readEviction returns the options of the flags for eviction, or a usageError.
func readEviction(c *cli.Context, n host.Node) (node.EvictionFlags, error) {
	e := node.EvictionFlags{Kubeconfig: c.String(node.FlagKubeconfig)}
	e.Cooldown = c.Duration(node.FlagCooldown)
	if filepath.IsAbs(e.Kubeconfig) {
		e.Kubeconfig = n.Path(e.Kubeconfig)
	}
	e.Off, e.DryRun = c.String(node.FlagEviction) == "off", c.String(node.FlagEviction) == "dry-run"
	var err error
	if e.Protected, err = evict.ParseProtected(c.String(node.FlagProtected)); err != nil {
		return e, usageError{fmt.Errorf("--%s=%w", node.FlagProtected, err)}
	}
	if e.Cooldown < 0 {
		return e, usageError{fmt.Errorf("--%s=%s: want 0 or more", node.FlagCooldown, e.Cooldown)}
	}
	if e.Kubeconfig == "" {
		return e, usageError{fmt.Errorf("--%s: want a path, auto or none", node.FlagKubeconfig)}
	}
	return e, nil
}
