package apiserver

import (
	"context"
	"fmt"
	"strings"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/kubeletargs"
	"nodepartition/internal/monitor/faults"
	"nodepartition/internal/monitor/options"
)

// Try implements faults.API. If a request fails, it is sent once more with the kubeconfig as it is
// now. Unlike with an eviction, a refusal does not keep evictions from being reported, and a
// request without an answer does not cut off that of an eviction.
func (a *Reporter) Try(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error {
	if a.kubeconfig == options.KubeconfigNone {
		return faults.ErrNoClient
	}
	client := a.present()
	if client == nil {
		if client = a.Look(); client == nil {
			return fmt.Errorf("%w: %s", faults.ErrNoClient, strings.Join(a.places(), ", "))
		}
	}
	err := ask(ctx, client.Background(), NodeName(client))
	if err == nil || ctx.Err() != nil {
		return err
	}
	if fresh := a.Look(); fresh != nil && fresh != client {
		err = ask(ctx, fresh.Background(), NodeName(fresh))
	}
	return err
}

// NodeName returns the name of this node in the cluster: from the certificate of the kubeconfig, or
// the kubelet's --hostname-override, or the name of the machine in lower case, as the kubelet does
// (GetHostname, pkg/util/node, v1.37.0).
func NodeName(client *kubeapi.Client) string {
	if name := client.Node(); name != "" {
		return name
	}
	name := nodeName()
	if kubelet, err := kubeletargs.Running(hostfs.FS("/")); err == nil && kubelet.Hostname != "" {
		name = kubelet.Hostname
	}
	return strings.ToLower(strings.TrimSpace(name))
}
