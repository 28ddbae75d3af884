package node

import (
	"context"
	"time"

	"node-partition.io/node-partition/internal/kubelet"
)

// podsAPITimeout bounds the wait for the kubelet's list of pods.
const podsAPITimeout = 2 * time.Second

// ListPods returns a watcher with the kubelet's pods. Without the Pods API the watcher has none.
func ListPods(ctx context.Context, socket string) *kubelet.Watcher {
	told := make(chan struct{}, 1)
	watcher := kubelet.NewWatcher(socket, func() {}, func(bool) {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	if !IsSocket(socket) {
		return watcher
	}
	go func() { _ = watcher.Run(ctx, func(error) {}) }() // it ends with ctx
	select {
	case <-told:
	case <-ctx.Done():
	case <-time.After(podsAPITimeout):
	}
	return watcher
}
