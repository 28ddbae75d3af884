// Package node reads the state of the node that the daemon and the commands have in common: the configuration that is applied,
// the kubelet that runs, the container runtime, and the files that the daemon leaves in /run.
package node
