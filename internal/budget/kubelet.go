package budget

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Kubelet holds the fields of the kubelet's configuration that make up the budget. It follows the
// names and types of k8s.io/kubelet/config/v1beta1.KubeletConfiguration.
type Kubelet struct {
	KubeReserved                 map[string]string `json:"kubeReserved,omitempty"`
	SystemReserved               map[string]string `json:"systemReserved,omitempty"`
	EvictionHard                 map[string]string `json:"evictionHard,omitempty"`
	MergeDefaultEvictionSettings *bool             `json:"mergeDefaultEvictionSettings,omitempty"`
	EnforceNodeAllocatable       []string          `json:"enforceNodeAllocatable,omitempty"`
	ReservedSystemCPUs           string            `json:"reservedSystemCPUs,omitempty"`
	KubeReservedCgroup           string            `json:"kubeReservedCgroup,omitempty"`
	SystemReservedCgroup         string            `json:"systemReservedCgroup,omitempty"`
	CPUManagerPolicy             string            `json:"cpuManagerPolicy,omitempty"`
	MemoryManagerPolicy          string            `json:"memoryManagerPolicy,omitempty"`
	MaxPods                      int32             `json:"maxPods,omitempty"`
	// LocalStorageCapacityIsolation is true if absent. If it is false, the node has no capacity of
	// storage.
	LocalStorageCapacityIsolation *bool `json:"localStorageCapacityIsolation,omitempty"`
	// CgroupsPerQOS is true if absent.
	CgroupsPerQOS *bool `json:"cgroupsPerQOS,omitempty"`
	// EvictionSoft and its grace periods do not count in the budget. The kubelet refuses a threshold
	// without a grace period.
	EvictionSoft            map[string]string   `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod map[string]string   `json:"evictionSoftGracePeriod,omitempty"`
	ReservedMemory          []MemoryReservation `json:"reservedMemory,omitempty"`
}

// MemoryReservation is an element of reservedMemory: what the static memory manager keeps of a NUMA
// node. A value is a string or a number,
// and parsed in bounded time.
type MemoryReservation struct {
	Limits map[string]json.RawMessage `json:"limits"`
}

// defaultMaxPods applies if maxPods is 0 (SetDefaults_KubeletConfiguration, v1beta1/defaults.go).
const defaultMaxPods = 110

// PodLimit returns the number of pods that the kubelet admits.
func (k *Kubelet) PodLimit() int64 {
	if k.MaxPods == 0 {
		return defaultMaxPods
	}
	return int64(k.MaxPods)
}

func (k *Kubelet) checkMaxPods() error {
	if k.MaxPods < 0 {
		return fmt.Errorf("maxPods: %d is negative; the kubelet does not start with it", k.MaxPods)
	}
	return nil
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
