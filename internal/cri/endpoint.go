package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/backoff"
)

// endpoints lists the default endpoints of runtimes, in the order in which they are tried: the
// kubelet's own (DefaultContainerRuntimeURL of kubeadm, constants_unix.go), then CRI-O, k3s and
// RKE2, and cri-dockerd.
var endpoints = []string{
	"/run/containerd/containerd.sock",
	"/run/crio/crio.sock",
	"/run/k3s/containerd/containerd.sock",
	"/run/cri-dockerd.sock",
}

// reconnect sets the delay between attempts to connect: a restarting runtime is back within a
// second.
var reconnect = backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: time.Second}

// Find returns a client of the first default endpoint that answers. An existing socket is not
// enough: Docker runs a containerd at containerd's socket whose CRI is off. path returns the path
// of a socket of the node.
func Find(ctx context.Context, path func(string) string) (*Client, error) {
	var silent []error
	for _, endpoint := range endpoints {
		socket := path(endpoint)
		if info, err := os.Stat(socket); err != nil || info.Mode()&fs.ModeSocket == 0 {
			continue
		}
		client, err := New("unix://" + socket)
		if err == nil {
			if _, _, err = client.Version(ctx); err == nil {
				return client, nil
			}
			err = errors.Join(err, client.Close())
		}
		silent = append(silent, err)
	}
	if len(silent) > 0 {
		return nil, fmt.Errorf(
			"no container runtime answers: is it running? Name its socket with --runtime-endpoint: %w",
			errors.Join(silent...),
		)
	}
	return nil, fmt.Errorf(
		"container runtime: no socket at %s: is it running? Name its socket with --runtime-endpoint",
		strings.Join(endpoints, ", "),
	)
}

// Target returns the target that grpc dials for an endpoint.
func Target(endpoint string) (string, error) {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok && strings.Contains(endpoint, "://") {
		return "", fmt.Errorf(
			"container runtime: %s: only unix sockets are supported; want unix:///run/containerd/containerd.sock",
			endpoint,
		)
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf(
			"container runtime: %s: is not an absolute path; want e.g. unix:///run/containerd/containerd.sock",
			endpoint,
		)
	}
	return "unix://" + path, nil
}
