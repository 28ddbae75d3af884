// Command partition-rollout gives the nodes of a cluster their system partitions: it is the
// controller of NodePartitions (rollout/README.md).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"node-partition.io/node-partition/internal/buildversion"
	"node-partition.io/node-partition/rollout/controller"
	"node-partition.io/node-partition/rollout/nodepod"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "partition-rollout: error: %v\n", err)
		if errors.As(err, new(usageError)) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

type usageError struct{ error }

func run(args []string) error {
	s, at, err := parse(args)
	if err != nil {
		return usageError{err}
	}
	ctrl.SetLogger(zap.New())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	m, err := controller.New(config, s, at)
	if err != nil {
		return err
	}
	return m.Start(ctrl.SetupSignalHandler())
}

// parse parses the options.
func parse(args []string) (nodepod.Settings, controller.Addresses, error) {
	s, at := nodepod.Settings{Version: buildversion.String()}, controller.Addresses{}
	flags := flag.NewFlagSet("partition-rollout", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.Namespace, "namespace", "", "the controller's namespace")
	flags.StringVar(&s.Image, "image", "", "the image of the pods of nodes: the controller's own")
	flags.StringVar((*string)(&s.PullPolicy), "pull-policy", string(v1.PullIfNotPresent), "their imagePullPolicy")
	flags.StringVar(&s.PriorityClass, "priority-class", "system-node-critical", "their priorityClassName")
	flags.StringVar((*string)(&s.AppArmor), "app-armor", string(v1.AppArmorProfileTypeUnconfined), "their profile of AppArmor")
	flags.StringVar(&s.SELinuxType, "selinux-type", "", "their type of SELinux")
	flags.StringVar(&at.Metrics, "metrics-address", ":8080", "where metrics are served; 0 for nowhere")
	flags.StringVar(&at.Health, "health-address", ":8081", "where /healthz and /readyz are served")
	if err := flags.Parse(args); err != nil {
		return s, at, err
	}
	if s.Namespace == "" || s.Image == "" || flags.NArg() > 0 {
		return s, at, errors.New("want --namespace and --image, and no argument beside the options")
	}
	return s, at, nil
}
