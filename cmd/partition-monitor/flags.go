package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"nodepartition/internal/monitor/options"
	"nodepartition/internal/podsapi"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
	"nodepartition/pkg/podmove/nri"
)

// The flags that run, status and check have in common. Package options has those that messages
// mention.
const (
	flagRuntime  = "runtime-endpoint"
	flagNRI      = "nri-socket"
	flagPods     = "pods-api-socket"
	flagMove     = "move"
	flagCooldown = "eviction-cooldown"
)

// commonFlags returns the flags that run, status and check have in common, followed by more.
func commonFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{
			Name:  flagRuntime,
			Usage: "`SOCKET` of the container runtime (default: the kubelet's, or the first that answers)",
		},
		&cli.StringFlag{Name: flagNRI, Usage: "`SOCKET` at which the runtime serves NRI", Value: nri.DefaultSocket},
		podsAPIFlag(),
		&cli.StringFlag{Name: options.FlagListen, Usage: "`ADDRESS` for metrics and health", Value: "127.0.0.1:9948"},
		&cli.StringFlag{
			Name:  flagMove,
			Usage: "how running pods are moved: auto, restart, live or never",
			Value: string(podmove.Auto),
		},
		&cli.StringFlag{Name: options.FlagEviction, Usage: "on, off, or dry-run, which only reports", Value: "on"},
		&cli.StringFlag{
			Name:  options.FlagProtected,
			Usage: "`PODS` that are never evicted: none, kubelet, or a list of static, node-critical, cluster-critical",
			Value: evict.DefaultProtected.String(),
		},
		&cli.DurationFlag{
			Name:  flagCooldown,
			Usage: "after an eviction, how long the pods of the same controller are restarted and not evicted",
			Value: 5 * time.Minute,
		},
		&cli.StringFlag{
			Name:  options.FlagKubeconfig,
			Usage: "kubeconfig `FILE` to report evictions to the API server with; auto is the kubelet's, with none pods are restarted instead",
			Value: options.KubeconfigAuto,
		},
		&cli.StringFlag{
			Name:  options.FlagEvents,
			Usage: "on or off: Events about the partition on its pods and on the node, with the kubeconfig of --" + options.FlagKubeconfig,
			Value: "on",
		},
		&cli.BoolFlag{
			Name:  options.FlagCondition,
			Usage: "keep the condition SystemPartitionPressure of the node, with the same kubeconfig",
		},
	}, more...)
}

func podsAPIFlag() cli.Flag {
	return &cli.StringFlag{Name: flagPods, Usage: "`SOCKET` of the kubelet's Pods API", Value: podsapi.DefaultSocket}
}

// readOptions returns the options of the common flags, or a usageError.
func readOptions(c *cli.Context) (options.Options, error) {
	o := options.Options{
		Runtime: c.String(flagRuntime),
		NRI:     c.String(flagNRI),
		PodsAPI: c.String(flagPods),
		Listen:  c.String(options.FlagListen),
		Mode:    podmove.Mode(c.String(flagMove)),
	}
	switch o.Mode {
	case podmove.Auto, podmove.OnlyRestart, podmove.OnlyLive, podmove.Never:
	default:
		return o, usageError{fmt.Errorf("--%s=%s: want auto, restart, live or never", flagMove, o.Mode)}
	}
	switch value := c.String(options.FlagEvents); value {
	case "on":
		o.Events = true
	case "off":
	default:
		return o, usageError{fmt.Errorf("--%s=%s: want on or off", options.FlagEvents, value)}
	}
	o.NodeCondition = c.Bool(options.FlagCondition)
	var err error
	o.Eviction, err = readEviction(c)
	return o, err
}

// readEviction returns the options of the flags for eviction, or a usageError.
func readEviction(c *cli.Context) (options.Eviction, error) {
	e := options.Eviction{Cooldown: c.Duration(flagCooldown), Kubeconfig: c.String(options.FlagKubeconfig)}
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
		return e, usageError{fmt.Errorf("--%s=%s: want 0 or more", flagCooldown, e.Cooldown)}
	}
	if e.Kubeconfig == "" {
		return e, usageError{fmt.Errorf("--%s: want a path, auto or none", options.FlagKubeconfig)}
	}
	return e, nil
}
