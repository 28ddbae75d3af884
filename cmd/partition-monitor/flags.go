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

// commonFlags returns the flags that run, status and check have in common, followed by more.
func commonFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		textFlag(node.FlagRuntime, ""),
		textFlag(node.FlagNRI, nri.DefaultSocket),
		podsAPIFlag(),
		textFlag(node.FlagListen, "127.0.0.1:9948"),
		textFlag(node.FlagMove, string(podmove.Auto)),
		textFlag(node.FlagEviction, "on"),
		textFlag(node.FlagProtected, evict.DefaultProtected.String()),
		durationFlag(node.FlagCooldown, 5*time.Minute),
		textFlag(node.FlagKubeconfig, node.KubeconfigAuto),
		textFlag(node.FlagEvents, "on"),
		boolFlag(node.FlagCondition),
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
	}
	switch o.Mode {
	case podmove.Auto, podmove.OnlyRestart, podmove.OnlyLive, podmove.Never:
	default:
		return o, usageError{fmt.Errorf("--%s=%s: want auto, restart, live or never", node.FlagMove, o.Mode)}
	}
	switch value := c.String(node.FlagEvents); value {
	case "on":
		o.Events = true
	case "off":
	default:
		return o, usageError{fmt.Errorf("--%s=%s: want on or off", node.FlagEvents, value)}
	}
	o.NodeCondition, o.NodeStatus = c.Bool(node.FlagCondition), c.Bool(node.FlagNodeStatus)
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
	switch value := c.String(node.FlagEviction); value {
	case "on":
	case "off":
		e.Off = true
	case "dry-run":
		e.DryRun = true
	default:
		return e, usageError{fmt.Errorf("--%s=%s: want on, off or dry-run", node.FlagEviction, value)}
	}
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
