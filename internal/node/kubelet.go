package node

import (
	"fmt"

	"nodepartition/internal/host"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/kubeletconfig"
	partition "nodepartition/pkg/slices/config"
)

// kubeletsEndpoint returns the runtime endpoint of the kubelet, by its command line or else by its
// configuration. It returns "" if neither has one.
func kubeletsEndpoint(n host.Node) string {
	if kubelet, err := kubeletargs.Running(n.Root); err == nil && kubelet.RuntimeEndpoint != "" {
		return n.Endpoint(kubelet.RuntimeEndpoint)
	}
	config, _ := kubeletconfig.Load(n.Root) // an invalid section does not concern the endpoint
	return n.Endpoint(config.RuntimeEndpoint)
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
