// Package apiserver reports evictions to the Kubernetes API server. It implements evict.API.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodepartition/internal/daemon/faults"
	"nodepartition/internal/host"
	"nodepartition/internal/kubeapi"
	"nodepartition/internal/node/cluster"
	"nodepartition/internal/node/options"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// Reporter reports evictions to the API server. It waits for a kubeconfig, because the node may
// join later. It reads the file again when it changes, because the node may join again.
type Reporter struct {
	host       host.Node
	kubeconfig string
	node       string
	log        *slog.Logger
	timeout    time.Duration // of one request; 0 for the client's own

	looking sync.Mutex // held while files are read; Available does not take it
	files   string     // their state when the client was created
	said    string

	mu      sync.Mutex
	client  *kubeapi.Client
	refused time.Time // when the credentials were last refused
}

// New returns a Reporter for the node n that has no client yet. kubeconfig is the value of the
// flag.
func New(n host.Node, kubeconfig string, log *slog.Logger) *Reporter {
	return &Reporter{host: n, kubeconfig: kubeconfig, node: cluster.Hostname(), log: log}
}

// lookAgain is the interval at which Run checks the kubeconfig. It is also the time for which an
// API server that has refused our credentials gets no requests.
const lookAgain = 10 * time.Second

// Available implements evict.API. It reads no file, because evictions call it when the disk may be
// slow.
func (a *Reporter) Available() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client != nil && (a.refused.IsZero() || time.Since(a.refused) >= lookAgain)
}

// Run keeps the client in step with the kubeconfig until ctx ends.
func (a *Reporter) Run(ctx context.Context) error {
	for {
		a.Look()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}

// Look returns a client for the kubeconfig as it is now, or nil if there is none.
func (a *Reporter) Look() *kubeapi.Client {
	if a.kubeconfig == options.KubeconfigNone {
		return nil
	}
	a.looking.Lock()
	defer a.looking.Unlock()
	present := a.present()
	if present != nil && a.state(present) == a.files {
		return present
	}
	before := describe(a.places())
	client, path, err := cluster.Open(a.host, a.kubeconfig)
	if err == nil && a.timeout > 0 {
		client.Timeout = a.timeout
	}
	if err != nil {
		if text := err.Error(); text != a.said {
			a.said = text
			a.log.Info(
				"evictions are not reported to the API server: the containers of a pod are stopped, and the kubelet starts them again",
				"error", err,
			)
		}
		client = nil // the file of the previous client is gone or not valid
	} else {
		if a.files, a.said = a.state(client), ""; before != describe(a.places()) {
			a.files = "" // it was replaced while it was read: the next check reads it again
		}
		a.log.Info("evictions are reported to the API server", "kubeconfig", path, "server", client.Server())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client, a.refused = client, time.Time{}
	return client
}

func (a *Reporter) present() *kubeapi.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

// places lists the paths that are searched for a kubeconfig. One before the present one may appear
// later.
func (a *Reporter) places() []string {
	if a.kubeconfig == options.KubeconfigAuto {
		return kubeapi.Places()
	}
	return []string{a.kubeconfig}
}

func (a *Reporter) state(client *kubeapi.Client) string {
	return describe(append(a.places(), client.Files()...))
}

// describe returns a text that changes when one of the files is replaced (device, inode) or written
// (size, times).
func describe(paths []string) string {
	var text strings.Builder
	for _, path := range paths {
		var info unix.Stat_t
		if err := unix.Stat(path, &info); err != nil {
			fmt.Fprintln(&text, path, err)
			continue
		}
		fmt.Fprintln(&text, path, info.Dev, info.Ino, info.Size, info.Mtim, info.Ctim)
	}
	return text.String()
}

// call calls ask with the client. If that fails, for whatever reason, the kubeconfig may have been
// replaced. Then it calls ask once more with the new one.
func (a *Reporter) call(ctx context.Context, ask func(context.Context, *kubeapi.Client) error) error {
	if a.kubeconfig == options.KubeconfigNone {
		return fmt.Errorf("%w: %w", evict.ErrFinal, faults.ErrNoClient)
	}
	ctx, cancel := withoutDeadline(ctx)
	defer cancel()
	client := a.present()
	if client == nil {
		if client = a.Look(); client == nil {
			return faults.ErrNoClient
		}
	}
	err := ask(ctx, client)
	if err == nil || errors.Is(err, kubeapi.ErrGone) || ctx.Err() != nil {
		return err
	}
	if fresh := a.Look(); fresh != nil && fresh != client {
		err = ask(ctx, fresh)
	}
	switch {
	case errors.Is(err, kubeapi.ErrCredentials):
		a.mu.Lock()
		a.refused = time.Now()
		a.mu.Unlock()
		return fmt.Errorf("%w: %w", evict.ErrFinal, err)
	case errors.Is(err, kubeapi.ErrForbidden), errors.Is(err, kubeapi.ErrStatic):
		// It is about this pod: a policy may be of its namespace.
		return fmt.Errorf("%w: %w", evict.ErrFinal, err)
	}
	return err
}

// withoutDeadline returns a context that ends when ctx is cancelled, and not at its deadline. Each
// request has a separate deadline, so that a server that takes seconds for each gets all requests
// of one attempt.
func withoutDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	free, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	return free, func() {
		stop()
		cancel()
	}
}

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
			kubeapi.Usage{Name: c.Name, WorkingSet: int64(c.WorkingSetBytes), Request: bytesQuantity(c.RequestBytes)},
		)
	}
	return f
}

func bytesQuantity(n uint64) resource.Quantity {
	return *resource.NewQuantity(int64(n), resource.BinarySI)
}
