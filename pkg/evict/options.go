package evict

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

// Options lists the inputs and outputs of a Manager. All but Burst are required.
type Options struct {
	// Partition is the name of the partition, and Cgroups the mount that its slice is in.
	Partition partition.Name
	Cgroups   cgroups.FS
	Inventory
	Actions
	// Store carries the state over to the next run of the program. Each partition has its own.
	Store Store
	// Burst is the growth of the partition, in bytes per second, that may set in without warning
	// (MeasureBurst); 0 for maxBurst. It is the same for all partitions of a node.
	Burst  float64
	Events Events

	// slice is the path of the partition below the mount.
	slice string
}

// Inventory finds pods, containers, and memory that the node can lend.
type Inventory struct {
	// Pods returns the pods in the partition without their usage, including unknown pods. It returns
	// at once.
	Pods func() []Pod
	// Known reports whether Pods has the pods' requests and priorities, as far as they can be known.
	// It is false while the kubelet is about to tell them. It returns at once.
	Known func() bool
	// Refresh starts a reconcile that identifies the unknown pods. It returns at once.
	Refresh func()
	// Scopes lists the scopes of containers below a pod's cgroup by container ID, including containers
	// that were just started.
	Scopes func(podCgroup string) (map[string]string, error)
	// Rest lists all containers of a pod by ID and cgroup, in and outside of the partition. A
	// container that a live move has left in two cgroups is in the list twice.
	Rest func(uid string) []Container
	// Spare reads what the node can lend. An error means that this is not known.
	Spare func() (Spare, error)
}

// Actions holds what a Manager does.
type Actions struct {
	// Kill kills all processes of a cgroup at once (Killer). atLimit means that the partition is
	// about to meet its limit. It returns an error that is fs.ErrNotExist if the kernel cannot.
	Kill    func(cgroup string, atLimit bool) error
	Runtime Runtime
	// Mark is called with the UIDs of the partition's pods that are being evicted for good, or were
	// recently, whenever they may have changed. It returns at once, and does not change the map.
	Mark func(uids map[string]bool)
	API  API
	// LowerLimit has systemd apply a memory limit that was lowered below the partition's usage.
	LowerLimit func(ctx context.Context) error
	// Reclaim has the kernel take back so many bytes of page cache from the partition. It returns at
	// once.
	Reclaim func(bytes uint64)
}

// check returns an error that names a required field that is missing.
func (o *Options) check() error {
	if err := o.Partition.Check(); err != nil {
		return fmt.Errorf("eviction: Partition %q %w", o.Partition, err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		required := !field.Anonymous && field.IsExported() && field.Name != "Burst"
		if required && reflect.ValueOf(o).Elem().FieldByIndex(field.Index).IsZero() {
			return fmt.Errorf("eviction of partition %s: evict.Options has no %s", o.Partition, field.Name)
		}
	}
	return nil
}

// name returns the partition as the messages of this package name it. Those about the system
// partition have been searched for in journals since there was only one.
func (o *Options) name() string {
	if o.Partition == partition.First {
		return "the partition"
	}
	return "partition " + string(o.Partition)
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
	// eviction. An error that is ErrFinal is not worth another attempt. Evict and Confirm return
	// within a time of their own: ctx ends with the program.
	Evict(ctx context.Context, e Eviction) error
	// Confirm reports whether the kubelet has reported that the pod has ended (known), and whether the
	// pod's status was overwritten and has been written again.
	Confirm(ctx context.Context, e Eviction) (known, again bool, err error)
}
