package budget

import "slices"

// Kubelet holds the fields of the kubelet's configuration that make up the budget. It follows the
// names and types of k8s.io/kubelet/config/v1beta1.KubeletConfiguration.
type Kubelet struct {
	KubeReserved                 map[string]string `json:"kubeReserved,omitempty"`
	SystemReserved               map[string]string `json:"systemReserved,omitempty"`
	EvictionHard                 map[string]string `json:"evictionHard,omitempty"`
	EvictionSoft                 map[string]string `json:"evictionSoft,omitempty"`
	MergeDefaultEvictionSettings *bool             `json:"mergeDefaultEvictionSettings,omitempty"`
	EnforceNodeAllocatable       []string          `json:"enforceNodeAllocatable,omitempty"`
	ReservedSystemCPUs           string            `json:"reservedSystemCPUs,omitempty"`
	KubeReservedCgroup           string            `json:"kubeReservedCgroup,omitempty"`
	SystemReservedCgroup         string            `json:"systemReservedCgroup,omitempty"`
	CPUManagerPolicy             string            `json:"cpuManagerPolicy,omitempty"`
	CPUManagerPolicyOptions      map[string]string `json:"cpuManagerPolicyOptions,omitempty"`
	MemoryManagerPolicy          string            `json:"memoryManagerPolicy,omitempty"`
	// LocalStorageCapacityIsolation is true if absent. If it is false, the node has no capacity of
	// storage.
	LocalStorageCapacityIsolation *bool `json:"localStorageCapacityIsolation,omitempty"`
}

// hasStorage reports whether the kubelet counts storage.
func (k *Kubelet) hasStorage() bool {
	return k.LocalStorageCapacityIsolation == nil || *k.LocalStorageCapacityIsolation
}

// enforces reports whether enforceNodeAllocatable contains a value.
func (k *Kubelet) enforces(value string) bool {
	return slices.Contains(k.EnforceNodeAllocatable, value)
}

// DefaultEvictionHard returns the evictionHard of a kubelet whose configuration file does not set
// it, as far as it is a part of the budget (DefaultEvictionHard,
// pkg/kubelet/eviction/defaults_linux.go).
func DefaultEvictionHard() map[string]string {
	return map[string]string{signalMemory: "100Mi", signalNodeFS: "10%"}
}
