package node

import (
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
)

// Options holds the common flags of run, status and check.
type Options struct {
	// Node is the node that is read.
	Node host.Node
	// Runtime is the CRI endpoint of the container runtime; empty means the kubelet's, or the first
	// that answers.
	Runtime string
	// NRI is the socket on which the runtime serves NRI.
	NRI string
	// PodsAPI is the socket of the kubelet's Pods API.
	PodsAPI string
	// Listen is the address of metrics and health; empty means that they are not served.
	Listen string
	// Mode selects the methods to move running pods.
	Mode podmove.Mode
	// Eviction has the flags of eviction.
	Eviction EvictionFlags
	// Events means that faults are recorded as Events at the API server, with Eviction.Kubeconfig.
	Events bool
	// NodeStatus means that the node has labels and the condition of readiness there, with the same
	// kubeconfig.
	NodeStatus bool
}

// Values of EvictionFlags.Kubeconfig that are not paths.
const (
	KubeconfigAuto = "auto" // the kubelet's
	KubeconfigNone = "none"
)

// EvictionFlags holds the flags of eviction.
type EvictionFlags struct {
	// Settings has what the flags set for all partitions.
	evict.Settings
	// Kubeconfig is a path, KubeconfigAuto or KubeconfigNone.
	Kubeconfig string
}
