// Package cri asks the container runtime over the Container Runtime Interface for pods and containers, by the identity
// that the kubelet gave them: the metadata of the request, which no author of a pod can write, and not labels.
package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage is what a runtime may answer at most, as for the kubelet (maxMsgSize, k8s.io/cri-client): a list of
// a thousand containers is some 2 MB.
const maxMessage = 16 << 20

// callTimeout bounds a call that only reads.
const callTimeout = 10 * time.Second

// Client is a connection to a runtime. It connects when it is first used and again after a restart of the runtime.
type Client struct {
	endpoint string
	conn     *grpc.ClientConn
	runtime  runtime.RuntimeServiceClient
}

// New prepares a connection to the runtime's socket, given as a path or as unix:///path.
func New(endpoint string) (*Client, error) {
	target, err := Target(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A restart of the runtime must not mean two minutes of backoff: that is grpc's default maximum.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("container runtime: %s: %w", endpoint, err)
	}
	return &Client{endpoint: endpoint, conn: conn, runtime: runtime.NewRuntimeServiceClient(conn)}, nil
}

// Endpoint is the address as it was given.
func (c *Client) Endpoint() string { return c.endpoint }

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Version returns the runtime's name and version, "containerd" and "v2.1.4".
func (c *Client) Version(ctx context.Context) (name, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.runtime.Version(ctx, &runtime.VersionRequest{})
	if err != nil {
		return "", "", c.failed("Version", err)
	}
	return answer.RuntimeName, answer.RuntimeVersion, nil
}

// CgroupDriver returns the cgroup driver of the runtime, "systemd" or "cgroupfs", and nothing where it does not tell: RuntimeConfig is in
// containerd 2.0 and CRI-O 1.28. A kubelet whose gate KubeletCgroupDriverFromCRI is on (GA in 1.34) goes by it, and not by its own file.
func (c *Client) CgroupDriver(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.runtime.RuntimeConfig(ctx, &runtime.RuntimeConfigRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented, err == nil && answer.GetLinux() == nil:
		return "", nil
	case err != nil:
		return "", c.failed("RuntimeConfig", err)
	case answer.Linux.CgroupDriver == runtime.CgroupDriver_CGROUPFS:
		return "cgroupfs", nil
	}
	return "systemd", nil
}

// Sandbox is the sandbox of a pod: a pod that is created again has a new one, and both may be there for a while.
type Sandbox struct {
	ID                   string
	UID, Namespace, Name string
	Ready                bool
	// Static tells that the kubelet has its pod from a file or a URL. The kubelet writes the annotation that says so, whatever the
	// pod's author wrote there.
	Static bool
}

// configSource is that annotation (ConfigSourceAnnotationKey, pkg/kubelet/types/pod_update.go).
const configSource = "kubernetes.io/config.source"

// Sandboxes lists the sandboxes of all pods, ended ones too.
func (c *Client) Sandboxes(ctx context.Context) ([]Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.runtime.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	if err != nil {
		return nil, c.failed("ListPodSandbox", err)
	}
	list := make([]Sandbox, 0, len(answer.Items))
	for _, item := range answer.Items {
		meta := item.GetMetadata()
		source := item.GetAnnotations()[configSource]
		list = append(list, Sandbox{
			ID: item.Id, UID: meta.GetUid(), Namespace: meta.GetNamespace(), Name: meta.GetName(),
			Ready:  item.State == runtime.PodSandboxState_SANDBOX_READY,
			Static: source != "" && source != "api",
		})
	}
	return list, nil
}

// State is the state of a container.
type State int

// The states of the CRI.
const (
	Created State = iota
	Running
	Exited
	Unknown
)

// Container is a container of a sandbox.
type Container struct {
	ID, SandboxID, Name string
	State               State
}

// Containers lists all containers that the runtime knows, in all states.
func (c *Client) Containers(ctx context.Context) ([]Container, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.runtime.ListContainers(ctx, &runtime.ListContainersRequest{})
	if err != nil {
		return nil, c.failed("ListContainers", err)
	}
	list := make([]Container, 0, len(answer.Containers))
	for _, item := range answer.Containers {
		list = append(list, Container{ID: item.Id, SandboxID: item.PodSandboxId, Name: item.GetMetadata().GetName(), State: stateOf(item.State)})
	}
	return list, nil
}

func stateOf(s runtime.ContainerState) State {
	switch s {
	case runtime.ContainerState_CONTAINER_CREATED:
		return Created
	case runtime.ContainerState_CONTAINER_RUNNING:
		return Running
	case runtime.ContainerState_CONTAINER_EXITED:
		return Exited
	default:
		return Unknown
	}
}

// maxGrace keeps a timeout from overflowing.
const maxGrace = 10 * 365 * 24 * time.Hour

// Stop stops a container as the kubelet does: SIGTERM, or what its image asks for, and SIGKILL after the grace period.
// It returns when the container has ended.
func (c *Client) Stop(ctx context.Context, id string, grace time.Duration) error {
	grace = min(grace, maxGrace)
	// As the kubelet's client: the grace period and what any call may take (StopContainer, k8s.io/cri-client).
	ctx, cancel := context.WithTimeout(ctx, grace+2*time.Minute)
	defer cancel()
	seconds := int64((grace + time.Second - 1) / time.Second)
	if _, err := c.runtime.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: id, Timeout: seconds}); err != nil {
		return c.failed("StopContainer "+id, err)
	}
	return nil
}

// Resources are what the kubelet asked for when it created a container.
type Resources struct {
	// Shares of CPU, 0 where it gave none.
	Shares uint64
	// OOMScoreAdj is -1000 to 1000 (proc_pid_oom_score_adj(5)).
	OOMScoreAdj int
	// MemoryLimit in bytes, 0 for none.
	MemoryLimit uint64
}

// Resources asks for the resources of a container. They stand in the status, or, with containerd 1.6, before the CRI had fields
// for them, in what it adds for people.
func (c *Client) Resources(ctx context.Context, id string) (Resources, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.runtime.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return Resources{}, c.failed("ContainerStatus "+id, err)
	}
	if linux := answer.GetStatus().GetResources().GetLinux(); linux.GetCpuShares() > 0 {
		return Resources{Shares: uint64(linux.CpuShares), OOMScoreAdj: int(linux.OomScoreAdj), MemoryLimit: uint64(max(linux.MemoryLimitInBytes, 0))}, nil
	}
	var info struct {
		Config struct {
			Linux struct {
				Resources struct {
					Shares      uint64 `json:"cpu_shares"`
					OOMScoreAdj int    `json:"oom_score_adj"`
					MemoryLimit int64  `json:"memory_limit_in_bytes"`
				} `json:"resources"`
			} `json:"linux"`
		} `json:"config"`
	}
	if text, ok := answer.GetInfo()["info"]; ok {
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			return Resources{}, c.failed("ContainerStatus "+id, err)
		}
	}
	r := info.Config.Linux.Resources
	return Resources{Shares: r.Shares, OOMScoreAdj: r.OOMScoreAdj, MemoryLimit: uint64(max(r.MemoryLimit, 0))}, nil
}

// ErrNotServed says that what listens at the endpoint does not serve the CRI: a containerd whose CRI plugin is switched off, as Docker's.
var ErrNotServed = errors.New("no CRI is served here")

func (c *Client) failed(call string, err error) error {
	if status.Code(err) == codes.Unimplemented {
		err = fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	return fmt.Errorf("container runtime: %s: %s: %w", c.endpoint, call, err)
}
