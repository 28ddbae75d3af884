// Package node reads the state of the node for the daemon and the commands: the applied
// configuration, the running kubelet, the container runtime, and the files that the daemon leaves
// in /run.
package node
