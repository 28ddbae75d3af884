package podmove

import (
	"time"

	"nodepartition/internal/unitname"
)

// Way is how a container comes to where it belongs.
type Way string

const (
	// Creation is the answer to the runtime's CreateContainer, over NRI.
	Creation Way = "creation"
	// Restart is stopping a container, which the kubelet starts again.
	Restart Way = "restart"
	// Live takes the processes of a running container over into a scope of our own.
	Live Way = "live"
)

// Events notifies the program, for its metrics and its journal. The methods return at once and may be called
// from any goroutine.
type Events interface {
	// Reconciled is called after each pass; err is nil where all of it was done.
	Reconciled(took time.Duration, err error)
	// Moving is called before a running container is moved.
	Moving(m Move, c Container)
	// Placed is called for each container that was placed, or was to be.
	Placed(p Placement)
	// NotPrepared is called when a pod's slice could not be made before its first container; the next pass
	// makes it.
	NotPrepared(namespace, pod string, err error)
	// NotReady is called when a pod that was restarted is in its place and has not been Ready for long: the
	// others wait for it.
	NotReady(m Move)
	// Killing is called before what is left of a container that has ended is killed.
	Killing(scope string)
}

// Placement is the outcome for one container.
type Placement struct {
	Way Way
	// To is the partition that the container is to be in.
	To   unitname.Partition
	Took time.Duration
	// Err is nil where the container is in its place. ErrInVain means that the pod is not restarted again,
	// ErrWrongPlace that no other pod is restarted either; after any other error the move is tried again.
	Err error
	// Move is nil at creation.
	Move *Move
	// Container has only an ID at creation.
	Container Container
}
