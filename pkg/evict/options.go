package evict

import (
	"context"
	"time"

	"nodepartition/internal/cgroupfs"
)

// Options has what a Manager reads, and what it acts with. All fields but Burst are needed.
type Options struct {
	// Cgroups is the mount, and Slice the path of the partition below it.
	Cgroups cgroupfs.FS
	Slice   string
	// Pods returns the pods in the partition, without figures, the unknown ones too. It returns at
	// once.
	Pods func() []Pod
	// Refresh has it found out who the unknown pods are. It returns at once.
	Refresh func()
	// Scopes lists the scopes of containers below a pod's cgroup, those too that were started a
	// moment ago, by container ID.
	Scopes func(podCgroup string) (map[string]string, error)
	// Rest lists the cgroups of all containers of a pod, in and outside of the partition.
	Rest func(uid string) []string
	// Kill kills all processes of a cgroup at once (KillCgroup), or returns an error that is
	// fs.ErrNotExist where the kernel cannot.
	Kill    func(cgroup string) error
	Runtime Runtime
	// Mark is called with the UIDs of the pods that are being evicted for good, or were a moment
	// ago, whenever they may have changed. It returns at once, and does not change them.
	Mark  func(uids map[string]bool)
	API   API
	Store Store
	// LowerLimit has systemd apply a memory limit that was lowered below what the partition used.
	LowerLimit func(ctx context.Context) error
	// Burst is how fast the partition may grow out of silence, in bytes per second (MeasureBurst);
	// MaxBurst where it is zero.
	Burst  float64
	Events Events
}

// Runtime stops containers with a grace period. *cri.Client can.
type Runtime interface {
	Stop(ctx context.Context, id string, grace time.Duration) error
}

// API is the API server.
type API interface {
	// Available reports whether there is one to ask at all: a kubeconfig.
	Available() bool
	// Evict has a pod end as after the kubelet's own eviction. It may be called again for the same
	// eviction. An error that is ErrFinal is not worth another attempt.
	Evict(ctx context.Context, e Eviction) error
	// Confirm reports whether the pod has ended and its kubelet knows, and has it end again where
	// somebody has overwritten it.
	Confirm(ctx context.Context, e Eviction) (settled bool, err error)
}
