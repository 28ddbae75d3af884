package apiserver

import (
	"context"
	"fmt"
	"strings"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/node/cluster"
	"nodepartition/internal/node/options"
)

// Try implements faults.API. If a request fails, it is sent once more with the kubeconfig as it is
// now. Unlike with an eviction, a refusal does not keep evictions from being reported, and a
// request without an answer does not cut off an eviction's request.
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
	err := ask(ctx, client.Background(), cluster.NodeName(a.host, client))
	if err == nil || ctx.Err() != nil {
		return err
	}
	if fresh := a.Look(); fresh != nil && fresh != client {
		err = ask(ctx, fresh.Background(), cluster.NodeName(a.host, fresh))
	}
	return err
}
