package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/kubeapi"
	"nodepartition/pkg/evict"
)

// The values of --kubeconfig that are no paths.
const (
	kubeconfigAuto = "auto" // the kubelet's
	kubeconfigNone = "none"
)

// apiServer tells the API server of evictions. Its kubeconfig is looked for until it is there: the node may join later.
type apiServer struct {
	kubeconfig string
	node       string
	log        *slog.Logger

	mu     sync.Mutex
	client *kubeapi.Client
	looked time.Time
	said   string
}

// lookAgain is how long we go without a kubeconfig until we look again.
const lookAgain = 10 * time.Second

// Available implements evict.API.
func (a *apiServer) Available() bool {
	_, err := a.get()
	return err == nil
}

var errNoKubeconfig = errors.New("without a kubeconfig")

func (a *apiServer) get() (*kubeapi.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil {
		return a.client, nil
	}
	if a.kubeconfig == kubeconfigNone || time.Since(a.looked) < lookAgain {
		return nil, errNoKubeconfig
	}
	a.looked = time.Now()
	client, path, err := openKubeconfig(a.kubeconfig)
	if err != nil {
		if text := err.Error(); text != a.said {
			a.said = text
			a.log.Info("evictions go without the API server: the containers of a pod are stopped, and the kubelet starts them again", "error", err)
		}
		return nil, errNoKubeconfig
	}
	a.log.Info("evictions are told to the API server", "kubeconfig", path, "server", client.Server())
	a.client = client
	return client, nil
}

// openKubeconfig opens the kubeconfig of a flag.
func openKubeconfig(kubeconfig string) (*kubeapi.Client, string, error) {
	if kubeconfig == kubeconfigAuto {
		found, err := kubeapi.Find(hostfs.FS("/"))
		if err != nil {
			return nil, "", err
		}
		kubeconfig = found
	}
	client, err := kubeapi.New(kubeconfig)
	return client, kubeconfig, err
}

// Evict implements evict.API.
func (a *apiServer) Evict(ctx context.Context, e evict.Eviction) error {
	if err := a.mark(ctx, e); err != nil {
		return err
	}
	client, err := a.get()
	if err != nil {
		return nil //nolint:nilerr // the pod is evicted, and nobody depends on its event
	}
	message, annotations := kubeapi.Message(figures(e))
	event := kubeapi.Event{
		UID: e.UID, Namespace: e.Namespace, Name: e.Name, Node: a.node, Reason: kubeapi.ReasonEvicted, Message: message, Annotations: annotations, Now: e.Time,
	}
	if err := client.Event(ctx, event); err != nil {
		a.log.Warn("the event of an eviction could not be made", "error", err)
	}
	return nil
}

// Confirm implements evict.API.
func (a *apiServer) Confirm(ctx context.Context, e evict.Eviction) (settled bool, err error) {
	client, err := a.get()
	if err != nil {
		return false, fmt.Errorf("%w: %w", evict.ErrFinal, err)
	}
	ended, known, err := client.Ended(ctx, kubeapi.Eviction{UID: e.UID, Namespace: e.Namespace, Name: e.Name})
	if ended || err != nil {
		return known, a.final(err)
	}
	// Where the kubelet knows, it has dropped the reason. While it cleans up it takes it over from the API server; once it has, it would
	// write over whatever we say.
	return known, a.mark(ctx, e)
}

// final says of an error whether another attempt is worth it.
func (a *apiServer) final(err error) error {
	if errors.Is(err, kubeapi.ErrForbidden) || errors.Is(err, kubeapi.ErrCredentials) || errors.Is(err, kubeapi.ErrStatic) {
		a.forget()
		return fmt.Errorf("%w: %w", evict.ErrFinal, err)
	}
	return err
}

func (a *apiServer) mark(ctx context.Context, e evict.Eviction) error {
	client, err := a.get()
	if err != nil {
		return fmt.Errorf("%w: %w", evict.ErrFinal, err)
	}
	message, _ := kubeapi.Message(figures(e))
	err = client.MarkEvicted(ctx, kubeapi.Eviction{UID: e.UID, Namespace: e.Namespace, Name: e.Name, Message: message, Now: e.Time})
	if errors.Is(err, kubeapi.ErrGone) {
		return nil // somebody has deleted it: it does not come back
	}
	return a.final(err)
}

// forget has the kubeconfig read again: what it holds may have been replaced.
func (a *apiServer) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client, a.looked = nil, time.Now()
}

func figures(e evict.Eviction) kubeapi.Figures {
	f := kubeapi.Figures{Threshold: bytesQuantity(e.AtBytes), Available: int64(e.AvailableBytes)}
	for _, c := range e.Containers {
		if c.Name == "" {
			continue // it was started a moment ago: whose it is will be known with the next pass
		}
		f.Containers = append(f.Containers, kubeapi.Usage{Name: c.Name, WorkingSet: int64(c.WorkingSetBytes), Request: bytesQuantity(c.RequestBytes)})
	}
	return f
}

func bytesQuantity(n uint64) resource.Quantity {
	return *resource.NewQuantity(int64(n), resource.BinarySI)
}

// nodeName is the host of our events. The kubelet's own name for the node may be another; it is in the pod's spec.
func nodeName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
