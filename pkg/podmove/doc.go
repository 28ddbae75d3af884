// Package podmove brings the pods of the partition's namespaces into the partition, and all others out of it.
//
// A pass takes what the runtime, the kubelet and the cgroup file system say (Snapshot), decides without touching anything
// what is to be done (Decide), and has it done (Reconciler). It does the same at start, at an event and at a tick:
// events only wake it. New containers do not wait for a pass: Placer answers the runtime's CreateContainer from memory.
package podmove
