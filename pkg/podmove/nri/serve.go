package nri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"k8s.io/apimachinery/pkg/util/wait"
)

// DefaultSocket is the socket on which runtimes serve NRI (DefaultSocketPath of containerd/nri).
const DefaultSocket = "/var/run/nri/nri.sock"

const (
	// pluginName and pluginIndex name the plugin in the runtime's log: 90-node-partition. The runtime
	// calls plugins in the order of their index, and a late one sees the adjustments of the earlier
	// ones.
	pluginName  = "node-partition"
	pluginIndex = "90"
)

// startTimeout bounds how long the runtime may take to accept us. It is twice the most that the
// runtime takes to register a plugin and to make a request (plugin_registration_timeout and
// plugin_request_timeout of containerd and CRI-O).
const startTimeout = 2 * (5 + 2) * time.Second

// mostRefused is the number of times that the runtime closes the connection of a validator before
// it has synchronized it. One that knows no validators does so (containerd/nri before 0.10), and
// one that stops just then. After that the plugin connects without.
const mostRefused = 3

// Serve keeps the plugin connected to the runtime until ctx ends. A restarted runtime creates
// containers at once, so the first attempts follow each other quickly. failed is called with the
// reason whenever there is no connection.
func Serve(ctx context.Context, socket string, p *Plugin, failed func(error)) error {
	again := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 1 << 30, Cap: time.Second}
	delay, refused := again.DelayFunc(), 0
	for {
		before := p.Connections()
		validates := p.Refused != nil && refused < mostRefused
		err := serveOnce(ctx, socket, p, validates)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case p.Connections() > before:
			delay, refused = again.DelayFunc(), 0
		case validates && errors.Is(err, errClosed):
			if refused++; refused == mostRefused {
				err = fmt.Errorf("%w: it accepts no validator, and --nri-validate has no effect; it needs containerd 2.2 or CRI-O 1.34", err)
			}
		}
		failed(fmt.Errorf("NRI: %s: %w", socket, err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay()):
		}
	}
}

var (
	// errClosed means that the runtime ended the connection: it stopped, or we were too slow.
	errClosed = errors.New("the runtime closed the connection")
	errStart  = fmt.Errorf("the runtime has not accepted the plugin within %s", startTimeout)
)

func serveOnce(ctx context.Context, socket string, p *Plugin, validates bool) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	p.dialed(err == nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &connection{Plugin: p}
	defer c.end()
	options := []stub.Option{stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithConnection(conn)}
	if validates {
		return register(ctx, validator{c}, append(options, failing)...)
	}
	return register(ctx, c, options...)
}

// connection is a Plugin on one of its connections. A call of the runtime may still be on its way
// when the connection ends.
type connection struct {
	*Plugin
	changing sync.Mutex
	ended    bool
}

// Synchronize is called after Configure with the running containers.
func (c *connection) Synchronize(
	ctx context.Context, pods []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	c.changing.Lock()
	defer c.changing.Unlock()
	//guard: a connection that has ended is not up again
	if c.ended {
		return nil, errClosed
	}
	return c.Plugin.Synchronize(ctx, pods, containers)
}

func (c *connection) end() {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.ended = true
	c.disconnected()
}

// register registers a plugin with the runtime, and returns when the connection or ctx ends.
func register(ctx context.Context, p any, options ...stub.Option) error {
	closed := make(chan struct{})
	// Without WithOnClose the stub ends the process.
	options = append(options, stub.WithOnClose(sync.OnceFunc(func() { close(closed) })), stub.WithLogger(silent{}))
	plugin, err := stub.New(p, options...)
	if err != nil {
		return err
	}
	// Start waits for the runtime's first call without a time limit, and holds a lock that its own
	// handling of a closed connection needs. If the runtime is killed just then, Start never returns
	// (containerd/nri 0.12.5).
	started := make(chan error, 1)
	go func() { started <- plugin.Start(ctx) }()
	select {
	case err := <-started:
		if err != nil {
			return err
		}
	case <-time.After(startTimeout):
		return errStart
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-closed:
		return errClosed
	case <-ctx.Done():
		plugin.Stop()
		return ctx.Err()
	}
}

// silent discards the log of the stub, which logs each step. Errors are returned to us as well.
type silent struct{}

func (silent) Debugf(context.Context, string, ...any) {}
func (silent) Infof(context.Context, string, ...any)  {}
func (silent) Warnf(context.Context, string, ...any)  {}
func (silent) Errorf(context.Context, string, ...any) {}
