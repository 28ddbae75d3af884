// Package node holds what the commands and the daemon both read of a node, so that both say the
// same: the flags as plain values, the configuration that is applied, the running kubelet and
// runtime, Node Allocatable, the pods that an eviction can choose from, the trial, the status, and
// the files that the daemon leaves in /run. It also has the requests to the running service, which
// internal/daemon answers.
//
// It uses no command and no part of the daemon.
package node
