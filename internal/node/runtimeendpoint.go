package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/kballard/go-shellquote"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/kubeletconfig"
	partition "node-partition.io/node-partition/pkg/slices/config"
)

// ServiceCommand returns the command line of a service. It is empty if the service does not exist,
// or if it is disabled and no other unit starts it: another program may have replaced that kubelet,
// as k3s does.
type ServiceCommand func(ctx context.Context, service string) (kubelet.Command, error)

// AskSystemctl returns a ServiceCommand for commands, which have no connection to systemd.
func AskSystemctl(n host.Node) ServiceCommand {
	return func(ctx context.Context, service string) (command kubelet.Command, err error) {
		units, err := n.Systemd.Show(ctx, "ExecStart,Environment,EnvironmentFiles,UnitFileState,WantedBy,RequiredBy,TriggeredBy", service)
		if err != nil || len(units) == 0 || isIdle(units[0]) {
			return command, err
		}
		for line := range strings.Lines(units[0]["ExecStart"]) {
			for field := range strings.SplitSeq(line, " ; ") {
				if args, ok := strings.CutPrefix(field, "argv[]="); ok {
					command.Args = strings.Fields(args)
				}
			}
		}
		command.Environment, err = shellquote.Split(units[0]["Environment"])
		for line := range strings.Lines(units[0]["EnvironmentFiles"]) {
			path, _, _ := strings.Cut(line, " (ignore_errors=")
			command.Files = append(command.Files, path)
		}
		return command, err
	}
}

// isIdle reports whether a unit is disabled, and no other one starts it.
func isIdle(unit map[string]string) bool {
	return unit["UnitFileState"] == "disabled" && unit["WantedBy"]+unit["RequiredBy"]+unit["TriggeredBy"] == ""
}

// kubeletsEndpoint returns the runtime endpoint of the kubelet, by its command line or else by its
// configuration, and "" if neither has one. At each boot the monitor starts before the kubelet:
// while none runs, its unit says what the command line will be. sure is false if systemd did not
// answer.
func kubeletsEndpoint(ctx context.Context, n host.Node, command ServiceCommand) (endpoint string, sure bool) {
	flags, sure := kubeletsFlags(ctx, n, command)
	if flags.RuntimeEndpoint != "" {
		return n.Endpoint(flags.RuntimeEndpoint), sure
	}
	config, _ := kubeletconfig.Load(n.Root) // an invalid section does not concern the endpoint
	return n.Endpoint(config.RuntimeEndpoint), sure
}

func kubeletsFlags(ctx context.Context, n host.Node, command ServiceCommand) (flags kubelet.Flags, sure bool) {
	if kubelet, err := kubelet.Running(n.Root); err == nil {
		return kubelet.Flags, true
	}
	service, err := command(ctx, kubelet.Service)
	//guard: before the kubelet runs, its unit says which runtime it uses
	return service.Flags(n.Root), err == nil
}

// runningYields returns the reason if the running kubelet of n makes the partition itself, and ""
// if it does not or no kubelet runs. It adds the kubelet's command line: a feature gate in its
// configuration is already in the plan.
func runningYields(n host.Node) string {
	kubelet, err := kubelet.Running(n.Root)
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
