package node

import (
	"fmt"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/kubeletconfig"
	partition "nodepartition/pkg/slices/config"
)

// kubeletsEndpoint is the runtime that the kubelet is told to use, by its command line or by its configuration; empty where neither says.
func kubeletsEndpoint() string {
	if kubelet, err := kubeletargs.Running(hostfs.FS("/")); err == nil && kubelet.RuntimeEndpoint != "" {
		return kubelet.RuntimeEndpoint
	}
	config, _ := kubeletconfig.Load(hostfs.FS("/")) // a section that is not valid says nothing against the rest
	return config.RuntimeEndpoint
}

// RunningYields returns why the partition is the running kubelet's own; empty where it is not, or where no kubelet tells. Only its command
// line is new here: what its configuration says of the gate itself is a part of the plan.
func RunningYields() string {
	kubelet, err := kubeletargs.Running(hostfs.FS("/"))
	if err != nil {
		return ""
	}
	config, _ := kubeletconfig.Load(hostfs.FS("/"))
	if !kubelet.GateOn(partition.Gate, config.Kubelet.FeatureGates, func() bool { return kubelet.Knows(partition.Gate) }) {
		return ""
	}
	return fmt.Sprintf(
		"command line and configuration of the running kubelet (process %d): feature gates: %s is on: the kubelet makes the "+
			"system partition itself, leaving it alone",
		kubelet.PID,
		partition.Gate,
	)
}
