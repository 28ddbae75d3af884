package main

import (
	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/kubeletconfig"
)

// kubeletsEndpoint is the runtime that the kubelet is told to use, by its command line or by its configuration; empty where neither says.
func kubeletsEndpoint() string {
	if kubelet, err := kubeletargs.Running(hostfs.FS("/")); err == nil && kubelet.RuntimeEndpoint != "" {
		return kubelet.RuntimeEndpoint
	}
	config, err := kubeletconfig.Load(hostfs.FS("/"))
	if err != nil {
		return ""
	}
	return config.RuntimeEndpoint
}
