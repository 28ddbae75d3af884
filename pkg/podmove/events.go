package podmove

import (
	"time"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/podmove/report"
)

// Method is a method of placing a container.
type Method string

const (
	// Creation places a container in the answer to the runtime's CreateContainer, over NRI.
	Creation Method = "creation"
	// Restart stops a container, which the kubelet starts again.
	Restart Method = "restart"
	// Live moves the processes of a running container into a scope of our own.
	Live Method = "live"
)

// Events notifies the program, for its metrics and its journal. The methods return at once and may
// be called from any goroutine.
type Events interface {
	// Reconciled is called after each reconcile. err is nil if the reconcile did everything.
	Reconciled(took time.Duration, err error)
	// Quiet is called at a tick at which no reconcile is needed, because nothing has happened.
	Quiet()
	// Moving is called before a running container is moved.
	Moving(m Move, c Container)
	// Placed is called for each container that was placed or failed to be.
	Placed(p Placement)
	// NotPrepared is called when a pod's slice could not be created before its first container. The
	// next reconcile creates it.
	NotPrepared(namespace, pod string, err error)
	// NotReady is called when a restarted pod is in its place and has not become Ready within
	// moveTimeout. The other pods keep waiting for it, except with OnlyRestart.
	NotReady(m Move)
	// Killing is called before a scope is ended whose container is gone, with the processes in it.
	Killing(scope string)
	// NotFollowed is called when a reconcile finds an annotation about the CPU time of a pod that
	// is not followed, and the one before has not. flaw describes it.
	NotFollowed(pod report.Pod, flaw string)
	// Outlived is called for each scope that is Due, before its processes are killed.
	Outlived(o report.Outlived)
}

// Placement is the outcome for one container.
type Placement struct {
	Method Method
	// To is the partition that the container belongs to.
	To   partition.Name
	Took time.Duration
	// Err is nil if the container is in its place. ErrInVain means that the pod is not restarted
	// again, and no other pod until it is back. ErrWrongPlace means that no other pod is restarted
	// either. After any other error the move is tried again. livemove.ErrGone means that the
	// container has ended meanwhile.
	Err error
	// Move is nil at creation.
	Move *Move
	// Container has only an ID at creation.
	Container Container
}
