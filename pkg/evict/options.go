package evict

import (
	"context"
	"time"

	"nodepartition/internal/cgroupfs"
)

// Options lists the inputs and outputs of a Manager. All but Burst and Shortage are required.
type Options struct {
	// Cgroups is the mount, and Slice the path of the partition below it.
	Cgroups cgroupfs.FS
	Slice   string
	// Pods returns the pods in the partition without their usage, including unknown pods. It returns
	// at once.
	Pods func() []Pod
	// Known reports whether Pods has the pods' requests and priorities, as far as they can be known.
	// It is false while the kubelet is about to tell them. It returns at once.
	Known func() bool
	// Refresh starts a pass that identifies the unknown pods. It returns at once.
	Refresh func()
	// Scopes lists the scopes of containers below a pod's cgroup by container ID, including containers
	// that were just started.
	Scopes func(podCgroup string) (map[string]string, error)
	// Rest lists all containers of a pod by ID and cgroup, in and outside of the partition. A
	// container that a live move has left in two cgroups is in the list twice.
	Rest func(uid string) []Container
	// Kill kills all processes of a cgroup at once (Killer). atLimit means that the partition is
	// about to meet its limit. It returns an error that is fs.ErrNotExist if the kernel cannot.
	Kill    func(cgroup string, atLimit bool) error
	Runtime Runtime
	// Mark is called with the UIDs of the pods that are being evicted for good, or were recently,
	// whenever they may have changed. It returns at once, and does not change the map.
	Mark  func(uids map[string]bool)
	API   API
	Store Store
	// Shortage is the path of the file that carries a shortage of memory over to the next run of the
	// program, empty for none. SinceBoot returns the kernel's ID of the boot and the time since it
	// (CLOCK_BOOTTIME), and is required with Shortage.
	Shortage  string
	SinceBoot func() (boot string, since time.Duration, err error)
	// LowerLimit has systemd apply a memory limit that was lowered below the partition's usage.
	LowerLimit func(ctx context.Context) error
	// Burst is the growth of the partition, in bytes per second, that may set in without warning
	// (MeasureBurst); 0 for maxBurst.
	Burst  float64
	Events Events
}

// Runtime stops containers with a grace period. *cri.Client implements it.
type Runtime interface {
	Stop(ctx context.Context, id string, grace time.Duration) error
}

// API is the API server.
type API interface {
	// Available reports whether an API server is configured: whether there is a kubeconfig.
	Available() bool
	// Evict ends a pod as the kubelet's own eviction does. It may be called again for the same
	// eviction. An error that is ErrFinal is not worth another attempt.
	Evict(ctx context.Context, e Eviction) error
	// Confirm reports whether the pod has ended and its kubelet has reported that. It ends the pod
	// again if its status was overwritten.
	Confirm(ctx context.Context, e Eviction) (settled bool, err error)
}
