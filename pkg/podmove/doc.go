// Package podmove moves the pods of each partition's namespaces into that partition, and all others
// out of the partitions.
//
// A reconcile reads the runtime, the kubelet and the cgroup file system (Snapshot), decides what to
// do without touching anything (Decide), and does it (Reconciler). Reconciles are the same at
// start, at an event and at a tick: events only wake the Reconciler. New containers do not wait for
// a reconcile: Placer answers the runtime's CreateContainer from memory.
package podmove
