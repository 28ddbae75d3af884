package node

import (
	"context"
	"strings"

	"github.com/kballard/go-shellquote"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/kubeletconfig"
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
	files, _ := kubeletconfig.Load(n.Root) // an invalid section does not concern the endpoint
	return n.Endpoint(files.RuntimeEndpoint), sure
}

func kubeletsFlags(ctx context.Context, n host.Node, command ServiceCommand) (flags kubelet.Flags, sure bool) {
	if process, err := kubelet.Running(n.Root); err == nil {
		return process.Flags, true
	}
	service, err := command(ctx, kubelet.Service)
	//guard: before the kubelet runs, its unit says which runtime it uses
	return service.Flags(n.Root), err == nil
}
