package podmove

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/stub"
	"k8s.io/apimachinery/pkg/util/wait"
)

// DefaultNRISocket is where runtimes serve NRI (DefaultSocketPath of containerd/nri).
const DefaultNRISocket = "/var/run/nri/nri.sock"

const (
	// pluginName and pluginIndex are what the runtime's log calls the plugin: 90-node-partition. Plugins are called in the
	// order of their index; one that comes late sees what others have adjusted.
	pluginName  = "node-partition"
	pluginIndex = "90"
)

// ServeNRI keeps the placer connected to the runtime until ctx ends. A runtime that restarts creates containers at once, so
// the first attempts follow each other quickly. connected is called when a connection comes or goes, failed with the reason.
func ServeNRI(ctx context.Context, socket string, p *Placer, connected func(bool), failed func(error)) error {
	again := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 1 << 30, Cap: time.Second}
	delay := again.DelayFunc()
	for {
		served, err := serveOnce(ctx, socket, p, connected)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if served {
			delay = again.DelayFunc()
		}
		failed(fmt.Errorf("NRI: %s: %w", socket, err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay()):
		}
	}
}

// errClosed says that the runtime ended the connection: it stopped, or we were too slow.
var errClosed = errors.New("the runtime closed the connection")

func serveOnce(ctx context.Context, socket string, p *Placer, connected func(bool)) (served bool, err error) {
	if _, err := os.Stat(socket); err != nil {
		return false, err
	}
	closed := make(chan struct{})
	closeOnce := sync.OnceFunc(func() { close(closed) })
	// Without WithOnClose the stub ends the process.
	plugin, err := stub.New(p, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithSocketPath(socket),
		stub.WithOnClose(closeOnce), stub.WithLogger(silent{}))
	if err != nil {
		return false, err
	}
	if err := plugin.Start(ctx); err != nil {
		return false, err
	}
	connected(true)
	select {
	case <-closed:
		err = errClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	plugin.Stop()
	p.Disconnected()
	connected(false)
	return true, err
}

// silent is for the stub, which logs each step; what fails is returned to us as well.
type silent struct{}

func (silent) Debugf(context.Context, string, ...any) {}
func (silent) Infof(context.Context, string, ...any)  {}
func (silent) Warnf(context.Context, string, ...any)  {}
func (silent) Errorf(context.Context, string, ...any) {}

// ServesNRI tells whether a runtime serves NRI, or did so since the boot.
func ServesNRI(socket string) bool {
	info, err := os.Stat(socket)
	return err == nil && info.Mode()&fs.ModeSocket != 0
}
