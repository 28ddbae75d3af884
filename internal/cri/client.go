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

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/partition"
)

// maxMessage is the maximum size of a message from a runtime, as for the kubelet (maxMsgSize,
// k8s.io/cri-client): a list of a thousand containers is some 2 MB.
const maxMessage = 16 << 20

// callTimeout bounds a call that only reads.
const callTimeout = 10 * time.Second

// Client is a connection to a runtime. It connects on first use and again after a restart of the
// runtime.
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
		// After a restart of the runtime two minutes of backoff, which is grpc's default maximum, would
		// be too long.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("container runtime: %s: %w", endpoint, err)
	}
	return &Client{endpoint: endpoint, conn: conn, runtime: runtime.NewRuntimeServiceClient(conn)}, nil
}

// Endpoint returns the address that was given to New.
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

// CgroupDriver returns the cgroup driver of the runtime, "systemd" or "cgroupfs", and "" if the
// runtime does not report it. containerd 2.0 and CRI-O 1.28 have RuntimeConfig. A kubelet whose
// gate KubeletCgroupDriverFromCRI is on (GA in 1.34) uses this driver, and not the one in its own
// file.
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

// Sandbox is the sandbox of a pod. A pod that is created again has a new one, and both may exist
// for a while.
type Sandbox struct {
	ID                   string
	UID, Namespace, Name string
	Ready                bool
	// Origin is as the annotations of the pod were when the sandbox was made, and Asked is the CPU
	// time that they say it has by the resource of its type. It is zero for a pod that asks for none.
	partition.Origin
	Requested admission.PodCPU
}

// Sandboxes lists the sandboxes of all pods, including ended ones.
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
		origin := partition.OriginOf(item.GetAnnotations())
		list = append(list, Sandbox{
			ID: item.Id, UID: meta.GetUid(), Namespace: meta.GetNamespace(), Name: meta.GetName(),
			Ready:  item.State == runtime.PodSandboxState_SANDBOX_READY,
			Origin: origin, Requested: admission.Annotated(item.GetAnnotations(), origin.Ask.Type),
		})
	}
	return list, nil
}

// State is the state of a container.
type State = runtime.ContainerState

// The states of the CRI.
const (
	Created = runtime.ContainerState_CONTAINER_CREATED
	Running = runtime.ContainerState_CONTAINER_RUNNING
	Exited  = runtime.ContainerState_CONTAINER_EXITED
)

// Container is a container of a sandbox.
type Container struct {
	ID, SandboxID, Name string
	State               State
}

// Containers lists all containers of the runtime, in all states.
func (c *Client) Containers(ctx context.Context) ([]Container, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.runtime.ListContainers(ctx, &runtime.ListContainersRequest{})
	if err != nil {
		return nil, c.failed("ListContainers", err)
	}
	list := make([]Container, 0, len(answer.Containers))
	for _, item := range answer.Containers {
		list = append(
			list,
			Container{ID: item.Id, SandboxID: item.PodSandboxId, Name: item.GetMetadata().GetName(), State: item.State},
		)
	}
	return list, nil
}

// maxGrace keeps a timeout from overflowing.
const maxGrace = 10 * 365 * 24 * time.Hour

// Stop stops a container as the kubelet does: SIGTERM, or the stop signal of its image, and SIGKILL
// after the grace period. It returns when the container has ended.
func (c *Client) Stop(ctx context.Context, id string, grace time.Duration) error {
	grace = min(grace, maxGrace)
	// As in the kubelet's client: the grace period plus the timeout of any call (StopContainer,
	// k8s.io/cri-client).
	ctx, cancel := context.WithTimeout(ctx, grace+2*time.Minute)
	defer cancel()
	seconds := int64((grace + time.Second - 1) / time.Second)
	request := &runtime.StopContainerRequest{ContainerId: id, Timeout: seconds}
	if _, err := c.runtime.StopContainer(ctx, request); err != nil {
		return c.failed("StopContainer "+id, err)
	}
	return nil
}

// Status is what the runtime reports of one container.
type Status struct {
	// Running means that it has been started and has not ended.
	Running bool
	// PID is the ID of its first process, 0 if the runtime does not report it. containerd and CRI-O
	// report it in the verbose information for people.
	PID int
	Resources
}

// Resources holds the resources that the kubelet requested when it created a container.
type Resources struct {
	// Shares of CPU, 0 if none were given.
	Shares uint64
	// OOMScoreAdj is -1000 to 1000 (proc_pid_oom_score_adj(5)).
	OOMScoreAdj int
	// MemoryLimit in bytes, 0 for none.
	MemoryLimit uint64
}

// Status reads the status of a container. containerd 1.6 has the resources only in the verbose
// information for people, because the CRI had no fields for them yet.
func (c *Client) Status(ctx context.Context, id string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.runtime.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	var s Status
	if err == nil {
		s, err = verboseStatus(answer.GetInfo())
	}
	s.Running = answer.GetStatus().GetState() == Running
	if linux := answer.GetStatus().GetResources().GetLinux(); linux.GetCpuShares() > 0 {
		s.Resources = Resources{
			Shares:      uint64(linux.CpuShares),
			OOMScoreAdj: int(linux.OomScoreAdj),
			MemoryLimit: uint64(max(linux.MemoryLimitInBytes, 0)),
		}
	}
	if err != nil {
		return Status{}, c.failed("ContainerStatus "+id, err)
	}
	return s, nil
}

// verboseStatus returns what the verbose information has, if there is any.
func verboseStatus(verbose map[string]string) (Status, error) {
	var info struct {
		PID    int `json:"pid"`
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
	if text, ok := verbose["info"]; ok {
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			return Status{}, fmt.Errorf("verbose information: want the JSON of containerd or CRI-O: %w", err)
		}
	}
	r := info.Config.Linux.Resources
	return Status{
		PID:       max(info.PID, 0),
		Resources: Resources{Shares: r.Shares, OOMScoreAdj: r.OOMScoreAdj, MemoryLimit: uint64(max(r.MemoryLimit, 0))},
	}, nil
}

// ErrNotServed means that the server at the endpoint does not serve the CRI: a containerd whose CRI
// plugin is off, as Docker's.
var ErrNotServed = errors.New("no CRI is served here")

func (c *Client) failed(call string, err error) error {
	if status.Code(err) == codes.Unimplemented {
		err = fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	return fmt.Errorf("container runtime: %s: %s: %w", c.endpoint, call, err)
}
