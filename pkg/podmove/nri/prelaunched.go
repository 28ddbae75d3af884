package nri

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove"
)

// Prelaunched is the plugin that the runtime starts by itself, before it serves its first request.
// It places members like Plugin, until Plugin is connected. It asks for the configuration for each
// container. So it needs no notification of a change.
type Prelaunched struct {
	// Config returns the present configuration. An error means that the members are not known. The
	// runtime waits for it.
	Config func() (podmove.Policy, error)
	// Placed is called for each container that the plugin has placed, NotPlaced with the reason why a
	// container is left where it is, which may be that of a member.
	Placed    func()
	NotPlaced func(error)

	mu      sync.Mutex
	runtime string
}

// IsPrelaunched reports whether the runtime has started this process as a plugin. It then has a
// connection to the runtime.
func IsPrelaunched() bool { return os.Getenv(api.PluginSocketEnvVar) != "" }

// ServePrelaunched serves the runtime that has started this process, until it closes the connection
// or ctx ends. Unlike Serve it does not connect again: the next start of the runtime starts another
// process.
func ServePrelaunched(ctx context.Context, p *Prelaunched) error {
	if err := register(ctx, p); err != nil {
		return fmt.Errorf("NRI: %w", err)
	}
	return nil
}

// Configure is the first call of the runtime.
func (p *Prelaunched) Configure(_ context.Context, _, runtime, _ string) (api.EventMask, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runtime = runtime
	return 0, nil
}

// CreateContainer answers the runtime with the cgroup of a member's container in its partition. If
// the members are not known, the container stays where it is: an error would prevent its creation.
func (p *Prelaunched) CreateContainer(
	_ context.Context,
	pod *api.PodSandbox,
	c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	config, err := p.Config()
	if err != nil {
		p.NotPlaced(err)
		return nil, nil, nil
	}
	to := config.Rules().Partition(memberOf(pod))
	if to == partition.Default {
		return nil, nil, nil
	}
	p.mu.Lock()
	runtime := p.runtime
	p.mu.Unlock()
	target, err := cgroupsPath(to, pod, c, runtime)
	if err != nil {
		p.NotPlaced(err)
		return nil, nil, nil
	}
	adjust := adjustment(c, target)
	if adjust != nil {
		p.Placed()
	}
	return adjust, nil, nil
}
