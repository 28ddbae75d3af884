package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/evict"
)

// Reporter reports evictions to the API server. It waits for a kubeconfig, because the node may
// join later. It reads the file again when it changes, because the node may join again.
type Reporter struct {
	host       host.Node
	kubeconfig string
	node       string
	log        *slog.Logger

	events sync.WaitGroup // that are being sent

	looking sync.Mutex // held while files are read; Available does not take it
	files   string     // their state when the client was created
	said    string

	mu      sync.Mutex
	client  *kubeapi.Client
	refused time.Time // when the credentials were last refused
}

// NewReporter returns a Reporter for the node n that has no client yet. kubeconfig is the value of
// the flag.
func NewReporter(n host.Node, kubeconfig string, log *slog.Logger) *Reporter {
	return &Reporter{host: n, kubeconfig: kubeconfig, node: node.Hostname(), log: log}
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
	wait.UntilWithContext(ctx, func(context.Context) { a.Look() }, lookAgain)
	a.events.Wait()
	return ctx.Err()
}

// Look returns a client for the kubeconfig as it is now, or nil if there is none.
func (a *Reporter) Look() *kubeapi.Client {
	if a.kubeconfig == node.KubeconfigNone {
		return nil
	}
	a.looking.Lock()
	defer a.looking.Unlock()
	present := a.present()
	if present != nil && a.state(present) == a.files {
		return present
	}
	before := describe(a.places())
	client, path, err := node.OpenCluster(a.host, a.kubeconfig)
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
	if a.kubeconfig == node.KubeconfigAuto {
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

// call sends an eviction, and marks errors that another attempt cannot change. Most of them are
// about this pod: a policy may be of its namespace.
func (a *Reporter) call(ctx context.Context, send func(*kubeapi.Client) error) error {
	err := a.ask(ctx, send)
	noneYet := errors.Is(err, kubeapi.ErrNoClient) && a.kubeconfig != node.KubeconfigNone
	//guard: an eviction that the API server refuses is not tried again
	if err == nil || noneYet || errors.Is(err, kubeapi.ErrUnreachable) || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, kubeapi.ErrCredentials) {
		a.mu.Lock()
		a.refused = time.Now()
		a.mu.Unlock()
	}
	return fmt.Errorf("%w: %w", evict.ErrFinal, err)
}

// ask calls send with the client. If that fails, the kubeconfig may have been replaced. Then it
// calls send once more with the new one.
func (a *Reporter) ask(ctx context.Context, send func(*kubeapi.Client) error) error {
	client := a.present()
	if client == nil {
		if client = a.Look(); client == nil {
			return fmt.Errorf("%w: %s", kubeapi.ErrNoClient, strings.Join(a.places(), ", "))
		}
	}
	err := send(client)
	if err == nil || errors.Is(err, kubeapi.ErrGone) || ctx.Err() != nil {
		return err
	}
	if fresh := a.Look(); fresh != nil && fresh != client {
		return send(fresh)
	}
	return err
}

// Try implements API. If a request fails, it is sent once more with the kubeconfig as it is
// now. Unlike with an eviction, a refusal does not keep evictions from being reported.
func (a *Reporter) Try(ctx context.Context, ask func(context.Context, *kubeapi.Client, string) error) error {
	return a.ask(ctx, func(client *kubeapi.Client) error {
		return ask(ctx, client.Background(), node.NameInCluster(a.host, client))
	})
}

// API sends requests with the present kubeconfig.
type API interface {
	// Try calls ask with a client and the name of the node. It returns the error of ask, or the reason
	// why there is no client.
	Try(ctx context.Context, ask func(ctx context.Context, client *kubeapi.Client, node string) error) error
}
