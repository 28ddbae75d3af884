package cluster

import (
	"context"
	"errors"
	"path"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodepartition/internal/kubeapi"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// Evict implements evict.API.
func (a *Reporter) Evict(ctx context.Context, e evict.Eviction) error {
	return a.call(ctx, func(ctx context.Context, client *kubeapi.Client) error {
		event := kubeapi.Event{
			UID:       e.UID,
			Namespace: e.Namespace,
			Name:      e.Name,
			Node:      a.node,
			Reason:    kubeapi.ReasonEvicted,
			Now:       e.Time,
		}
		event.Message, event.Annotations = kubeapi.Message(figures(e), nil)
		if err := mark(ctx, client, e, func(pod *v1.Pod) string {
			event.Message, event.Annotations = kubeapi.Message(figures(e), pod)
			return event.Message
		}); err != nil {
			return err
		}
		if err := client.Event(ctx, event); err != nil {
			// The pod is evicted all the same. No program depends on its event.
			a.log.Warn("the event of an eviction could not be created", "error", err)
		}
		return nil
	})
}

// Confirm implements evict.API.
func (a *Reporter) Confirm(ctx context.Context, e evict.Eviction) (settled bool, err error) {
	err = a.call(ctx, func(ctx context.Context, client *kubeapi.Client) error {
		var ended bool
		ended, settled, err = client.Ended(ctx, kubeapi.Eviction{UID: e.UID, Namespace: e.Namespace, Name: e.Name})
		if ended || err != nil {
			return err
		}
		// A kubelet that knows has dropped the reason. While it cleans up, it takes the reason over from
		// the API server. After that it would overwrite what we write.
		return mark(ctx, client, e, func(pod *v1.Pod) string {
			message, _ := kubeapi.Message(figures(e), pod)
			return message
		})
	})
	return settled && err == nil, err
}

func mark(ctx context.Context, client *kubeapi.Client, e evict.Eviction, describe func(*v1.Pod) string) error {
	err := client.MarkEvicted(
		ctx,
		kubeapi.Eviction{UID: e.UID, Namespace: e.Namespace, Name: e.Name, Describe: describe, Now: e.Time},
	)
	if errors.Is(err, kubeapi.ErrGone) {
		return nil // it was deleted, and does not come back
	}
	return err
}

// partition returns the partition of an evicted pod.
func partition(e evict.Eviction) unitname.PartitionName {
	name, _, _, _ := unitname.ParsePodSlice(path.Base(e.Cgroup))
	return name
}

func figures(e evict.Eviction) kubeapi.Figures {
	f := kubeapi.Figures{
		Partition:  string(partition(e)),
		Threshold:  bytesQuantity(e.AtBytes),
		Available:  int64(e.AvailableBytes),
		WorkingSet: int64(e.WorkingSetBytes),
	}
	for _, c := range e.Containers {
		if c.Name == "" {
			continue // it was just started: the next pass finds its name
		}
		f.Containers = append(
			f.Containers,
			kubeapi.Usage{Name: c.Name, WorkingSet: int64(c.WorkingSet), Request: bytesQuantity(c.Request)},
		)
	}
	return f
}

func bytesQuantity(n uint64) resource.Quantity {
	return *resource.NewQuantity(int64(n), resource.BinarySI)
}
