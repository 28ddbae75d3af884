package node

import (
	"context"
	"fmt"
	"strings"

	"nodepartition/internal/host"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/kubeletconfig"
	partition "nodepartition/pkg/slices/config"
)

// UnitFiles returns the files of a unit in the order in which systemd applies them. A unit that
// does not exist has none.
type UnitFiles func(ctx context.Context, unit string) ([]string, error)

// AskSystemctl returns a UnitFiles for commands, which have no connection to systemd.
func AskSystemctl(n host.Node) UnitFiles {
	return func(ctx context.Context, unit string) ([]string, error) {
		units, err := n.Systemd.Show(ctx, "FragmentPath,DropInPaths", unit)
		if err != nil || len(units) == 0 {
			return nil, err
		}
		return strings.Fields(units[0]["FragmentPath"] + " " + units[0]["DropInPaths"]), nil
	}
}

// kubeletsEndpoint returns the runtime endpoint of the kubelet, by its command line or else by its
// configuration, and "" if neither has one. At each boot the monitor starts before the kubelet:
// while none runs, its unit says what the command line will be. sure is false if systemd did not
// say what the unit is.
func kubeletsEndpoint(ctx context.Context, n host.Node, files UnitFiles) (endpoint string, sure bool) {
	flags, sure := kubeletsFlags(ctx, n, files)
	if flags.RuntimeEndpoint != "" {
		return n.Endpoint(flags.RuntimeEndpoint), sure
	}
	config, _ := kubeletconfig.Load(n.Root) // an invalid section does not concern the endpoint
	return n.Endpoint(config.RuntimeEndpoint), sure
}

func kubeletsFlags(ctx context.Context, n host.Node, files UnitFiles) (flags kubeletargs.Flags, sure bool) {
	if kubelet, err := kubeletargs.Running(n.Root); err == nil {
		return kubelet.Flags, true
	}
	unit, err := files(ctx, kubeletargs.Service)
	return kubeletargs.OfUnit(n.Root, unit), err == nil
}

// RunningYields returns the reason if the running kubelet of n makes the partition itself, and ""
// if it does not or no kubelet runs. It adds the kubelet's command line: a feature gate in its
// configuration is already in the plan.
func RunningYields(n host.Node) string {
	kubelet, err := kubeletargs.Running(n.Root)
	if err != nil {
		return ""
	}
	config, _ := kubeletconfig.Load(n.Root)
	if !kubelet.GateOn(
		partition.Gate,
		config.Kubelet.FeatureGates,
		func() bool { return kubelet.Knows(n.Root, partition.Gate) },
	) {
		return ""
	}
	return fmt.Sprintf(
		"command line and configuration of the running kubelet (process %d): feature gates: %s is on: the kubelet makes the "+
			"system partition itself, leaving it alone",
		kubelet.PID,
		partition.Gate,
	)
}
