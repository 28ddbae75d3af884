package cluster

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/pkg/evict"
)

// Evict implements evict.API.
func (a *Reporter) Evict(ctx context.Context, e evict.Eviction) error {
	return a.call(ctx, func(client *kubeapi.Client) error {
		text, annotations := message(e, nil)
		if err := mark(ctx, client, e, func(pod *v1.Pod) string {
			text, annotations = message(e, pod)
			return text
		}); err != nil {
			return err
		}
		event := kubeapi.NewEvent(kubeapi.AboutPod(podOf(e)), a.node, kubeapi.ReasonEvicted, text, e.Time)
		event.Annotations = annotations
		//guard: a webhook that is slow for events holds up no eviction
		a.events.Go(func() { // no program depends on it, and the end of this one may end it
			if err := client.Event(ctx, event); err != nil {
				a.log.Warn("the event of an eviction could not be created", "error", err)
			}
		})
		return nil
	})
}

// Confirm implements evict.API.
func (a *Reporter) Confirm(ctx context.Context, e evict.Eviction) (known, again bool, err error) {
	err = a.call(ctx, func(client *kubeapi.Client) error {
		var ended bool
		ended, known, err = client.Ended(ctx, podOf(e))
		again = !ended
		if ended || err != nil {
			return err
		}
		return mark(ctx, client, e, func(pod *v1.Pod) string {
			text, _ := message(e, pod)
			return text
		})
	})
	return known, again, err
}

func mark(ctx context.Context, client *kubeapi.Client, e evict.Eviction, describe func(*v1.Pod) string) error {
	err := client.MarkEvicted(ctx, podOf(e), e.Time, describe)
	if errors.Is(err, kubeapi.ErrGone) {
		return nil // it was deleted, and does not come back
	}
	return err
}

func podOf(e evict.Eviction) kubeapi.Pod {
	return kubeapi.Pod{UID: e.UID, Namespace: e.Namespace, Name: e.Name}
}
