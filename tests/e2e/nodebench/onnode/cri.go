package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/cri"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/systemd"
)

const (
	namespace = "kube-system"
	image     = "lab.local/busybox:1"
	tree      = cgroups.FS(cgroups.Mount)
)

// pod is a pod that is made as the kubelet makes pods, but unknown to the kubelet.
type pod struct {
	uid     string
	systemd *systemd.Client
	runtime runtime.RuntimeServiceClient
	config  *runtime.PodSandboxConfig
	sandbox string
	count   uint32 // of containers so far
}

var limits = cgroups.Limits{
	MemoryMax:      200 << 20,
	MemoryHigh:     cgroups.Unlimited,
	CPUWeight:      20,
	CPUQuotaPerSec: cgroups.Unlimited,
	CPUQuotaPeriod: 100_000,
	TasksMax:       cgroups.Unlimited,
}

func (p *pod) slice(part partition.Name) string {
	return partition.PodSlice(part, v1.PodQOSBurstable, p.uid)
}

// startPod creates the slice and the sandbox of a pod.
func startPod(ctx context.Context, endpoint, uid string, c *systemd.Client) (*pod, error) {
	target, err := cri.Target(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	p := &pod{uid: uid, systemd: c, runtime: runtime.NewRuntimeServiceClient(conn)}
	defaultSlice := p.slice(partition.Default)
	if err := c.EnsureSlice(ctx, defaultSlice, "Pod of a benchmark", limits); err != nil {
		return nil, err
	}
	logs := "/var/log/pods/" + namespace + "_nodebench_" + uid
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	p.config = &runtime.PodSandboxConfig{
		Metadata:     &runtime.PodSandboxMetadata{Name: "nodebench", Namespace: namespace, Uid: uid},
		LogDirectory: logs,
		Labels:       labels("nodebench", uid),
		Linux: &runtime.LinuxPodSandboxConfig{
			CgroupParent:    "/" + partition.CgroupPath(defaultSlice),
			SecurityContext: &runtime.LinuxSandboxSecurityContext{NamespaceOptions: hostNetwork()},
			Resources:       &runtime.LinuxContainerResources{CpuShares: shares},
		},
	}
	answer, err := p.runtime.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return nil, err
	}
	p.sandbox = answer.PodSandboxId
	return p, nil
}

// shares is the CPU shares of a request of 100m.
const shares = 102

func hostNetwork() *runtime.NamespaceOption {
	return &runtime.NamespaceOption{Network: runtime.NamespaceMode_NODE, Pid: runtime.NamespaceMode_CONTAINER}
}

func labels(name, uid string) map[string]string {
	return map[string]string{
		"io.kubernetes.pod.name":      name,
		"io.kubernetes.pod.namespace": namespace,
		"io.kubernetes.pod.uid":       uid,
	}
}

// start creates and starts a container.
func (p *pod) start(ctx context.Context) (id string, err error) {
	p.count++
	config := &runtime.ContainerConfig{
		Metadata: &runtime.ContainerMetadata{Name: "main", Attempt: p.count},
		Image:    &runtime.ImageSpec{Image: image},
		Command:  []string{"sleep", "1000000"},
		Labels:   labels("nodebench", p.uid),
		LogPath:  fmt.Sprintf("main_%d.log", p.count),
		Linux: &runtime.LinuxContainerConfig{
			Resources: &runtime.LinuxContainerResources{
				CpuShares:          shares,
				MemoryLimitInBytes: 100 << 20,
				CpuPeriod:          100_000,
				OomScoreAdj:        900,
			},
			SecurityContext: &runtime.LinuxContainerSecurityContext{NamespaceOptions: hostNetwork()},
		},
	}
	made, err := p.runtime.CreateContainer(
		ctx,
		&runtime.CreateContainerRequest{PodSandboxId: p.sandbox, Config: config, SandboxConfig: p.config},
	)
	if err != nil {
		return "", err
	}
	_, err = p.runtime.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: made.ContainerId})
	return made.ContainerId, err
}

func (p *pod) remove(ctx context.Context, id string) error {
	if _, err := p.runtime.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: id}); err != nil {
		return err
	}
	_, err := p.runtime.RemoveContainer(ctx, &runtime.RemoveContainerRequest{ContainerId: id})
	return err
}

// end removes the whole pod.
func (p *pod) end(ctx context.Context) error {
	_, stopErr := p.runtime.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: p.sandbox})
	_, removeErr := p.runtime.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
	err := errors.Join(stopErr, removeErr)
	for _, part := range []partition.Name{partition.System, partition.Default} {
		path := partition.CgroupPath(p.slice(part))
		err = errors.Join(err, eventually(ctx, "nothing is in "+path, func() bool {
			populated, err := tree.Populated(path)
			return err == nil && !populated
		}), p.systemd.StopSlice(ctx, p.slice(part)))
	}
	return err
}

// scopeName returns containerd's name for the scope of a container.
func scopeName(id string) string { return "cri-containerd-" + id + ".scope" }

// where returns the partition that a container runs in.
func (p *pod) where(id string) (partition.Name, error) {
	for _, part := range []partition.Name{partition.System, partition.Default} {
		populated, err := tree.Populated(partition.CgroupPath(p.slice(part)) + "/" + scopeName(id))
		if err != nil || populated {
			return part, err
		}
	}
	return "", fmt.Errorf("container %s is in neither slice of its pod", id)
}
