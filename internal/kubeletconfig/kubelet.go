package kubeletconfig

// Kubelet holds the fields of the kubelet's configuration that bear on the system partition. Defaults are not
// applied: an absent field keeps its zero value. The names and types are those of
// k8s.io/kubelet/config/v1beta1.KubeletConfiguration. The generator does not link that type: the packages that it
// imports take longer to initialise than the generator takes in all (docs/performance.md).
type Kubelet struct {
	CgroupRoot         string          `json:"cgroupRoot,omitempty"`
	CgroupsPerQOS      *bool           `json:"cgroupsPerQOS,omitempty"`
	CgroupDriver       string          `json:"cgroupDriver,omitempty"`
	CPUManagerPolicy   string          `json:"cpuManagerPolicy,omitempty"`
	FeatureGates       map[string]bool `json:"featureGates,omitempty"`
	ReservedSystemCPUs string          `json:"reservedSystemCPUs,omitempty"`
}
