package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node/options"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/nri"
)

// commonFlags returns the flags that run, status and check have in common, followed by more.
func commonFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		textFlag(options.FlagRuntime, ""),
		textFlag(options.FlagNRI, nri.DefaultSocket),
		podsAPIFlag(),
		textFlag(options.FlagListen, "127.0.0.1:9948"),
		textFlag(options.FlagMove, string(podmove.Auto)),
		textFlag(options.FlagEviction, "on"),
		textFlag(options.FlagProtected, evict.DefaultProtected.String()),
		durationFlag(options.FlagCooldown, 5*time.Minute),
		textFlag(options.FlagKubeconfig, options.KubeconfigAuto),
		textFlag(options.FlagEvents, "on"),
		boolFlag(options.FlagCondition),
		boolFlag(options.FlagNodeStatus),
	}, more...)
}

func podsAPIFlag() cli.Flag { return textFlag(options.FlagPods, kubelet.PodsSocket) }

func textFlag(name, value string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: options.Usage(name), Value: value}
}

func durationFlag(name string, value time.Duration) cli.Flag {
	return &cli.DurationFlag{Name: name, Usage: options.Usage(name), Value: value}
}

func boolFlag(name string) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: options.Usage(name)}
}

// readOptions returns the options of the common flags, or a usageError.
func readOptions(c *cli.Context, n host.Node) (options.Options, error) {
	o := options.Options{
		Node:    n,
		Runtime: n.Endpoint(c.String(options.FlagRuntime)),
		NRI:     n.Path(c.String(options.FlagNRI)),
		PodsAPI: n.Path(c.String(options.FlagPods)),
		Listen:  c.String(options.FlagListen),
		Mode:    podmove.Mode(c.String(options.FlagMove)),
	}
	switch o.Mode {
	case podmove.Auto, podmove.OnlyRestart, podmove.OnlyLive, podmove.Never:
	default:
		return o, usageError{fmt.Errorf("--%s=%s: want auto, restart, live or never", options.FlagMove, o.Mode)}
	}
	switch value := c.String(options.FlagEvents); value {
	case "on":
		o.Events = true
	case "off":
	default:
		return o, usageError{fmt.Errorf("--%s=%s: want on or off", options.FlagEvents, value)}
	}
	o.NodeCondition, o.NodeStatus = c.Bool(options.FlagCondition), c.Bool(options.FlagNodeStatus)
	var err error
	o.Eviction, err = readEviction(c, n)
	return o, err
}

// readEviction returns the options of the flags for eviction, or a usageError.
func readEviction(c *cli.Context, n host.Node) (options.Eviction, error) {
	e := options.Eviction{Kubeconfig: c.String(options.FlagKubeconfig)}
	e.Cooldown = c.Duration(options.FlagCooldown)
	if filepath.IsAbs(e.Kubeconfig) {
		e.Kubeconfig = n.Path(e.Kubeconfig)
	}
	switch value := c.String(options.FlagEviction); value {
	case "on":
	case "off":
		e.Off = true
	case "dry-run":
		e.DryRun = true
	default:
		return e, usageError{fmt.Errorf("--%s=%s: want on, off or dry-run", options.FlagEviction, value)}
	}
	var err error
	if e.Protected, err = evict.ParseProtected(c.String(options.FlagProtected)); err != nil {
		return e, usageError{fmt.Errorf("--%s=%w", options.FlagProtected, err)}
	}
	if e.Cooldown < 0 {
		return e, usageError{fmt.Errorf("--%s=%s: want 0 or more", options.FlagCooldown, e.Cooldown)}
	}
	if e.Kubeconfig == "" {
		return e, usageError{fmt.Errorf("--%s: want a path, auto or none", options.FlagKubeconfig)}
	}
	return e, nil
}
