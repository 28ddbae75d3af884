// Package options holds what the flags of the commands ask for, as plain values.
package options

import (
	"time"

	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// The names of the flags that messages mention.
const (
	FlagListen     = "listen"
	FlagEviction   = "eviction"
	FlagProtected  = "eviction-protect"
	FlagKubeconfig = "kubeconfig"
)

// Options are the flags that run, status and check have in common.
type Options struct {
	// Runtime is the CRI endpoint of the container runtime; empty is the kubelet's, or the first that answers.
	Runtime string
	// NRI is the socket at which the runtime serves NRI.
	NRI string
	// PodsAPI is the socket of the kubelet's Pods API.
	PodsAPI string
	// Listen is the address of metrics and health; empty is none.
	Listen string
	// Mode is how running pods are moved.
	Mode podmove.Mode
	// Eviction are the flags of eviction.
	Eviction Eviction
}

// The values of Eviction.Kubeconfig that are no paths.
const (
	KubeconfigAuto = "auto" // the kubelet's
	KubeconfigNone = "none"
)

// Eviction are the flags of eviction.
type Eviction struct {
	// Off switches evictions off, and DryRun only reports them.
	Off, DryRun bool
	// Protected has the pods that are never evicted.
	Protected evict.Protected
	// Cooldown is how long the pods of a controller are restarted and not evicted again.
	Cooldown time.Duration
	// Kubeconfig is a path, KubeconfigAuto or KubeconfigNone.
	Kubeconfig string
}
