package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/text"
)

func moveCommand(n host.Node) *cli.Command {
	return &cli.Command{
		Name:      "move",
		ArgsUsage: "NAMESPACE/POD",
		Usage:     "move one pod to where it belongs",
		Description: "The service moves it, even if it does not restart it by itself (static, node-critical, --move=never). " +
			"move returns when the pod is there and Ready again.",
		Action: func(c *cli.Context) error {
			names, err := arguments(c)
			if err != nil {
				return err
			}
			if len(names) != 1 {
				return usageError{errors.New("move: want one NAMESPACE/POD")}
			}
			pod, err := podName(names[0])
			if err != nil {
				return err
			}
			slice, err := node.MovePod(c.Context, n.Path(node.ControlSocket), pod)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.App.Writer, "%s is in %s.\n", pod, text.Terminal(slice))
			return err
		},
	}
}

func podName(text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, usageError{
			fmt.Errorf("move %s: want NAMESPACE/POD, as partition-monitor status shows them", text),
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
