package kubeletconfig

// Kubelet holds the fields of the kubelet's configuration that bear on the system partition, and on
// the cgroups that the kubelet expects for kubeReserved and systemReserved.
// Defaults are not applied: an absent field keeps its zero value. No other field is decoded: errors
// elsewhere are the kubelet's business, and its quantities can take minutes to compare
// ("1e99999999", resource.Quantity of apimachinery 0.37.0). It follows the names and types of
// k8s.io/kubelet/config/v1beta1.KubeletConfiguration. The generator does not link that type:
// initialising the packages that it imports takes longer than a whole run of the generator
// (docs/architecture.md).
type Kubelet struct {
	CgroupRoot         string          `json:"cgroupRoot,omitempty"`
	CgroupsPerQOS      *bool           `json:"cgroupsPerQOS,omitempty"`
	CgroupDriver       string          `json:"cgroupDriver,omitempty"`
	CPUManagerPolicy   string          `json:"cpuManagerPolicy,omitempty"`
	FeatureGates       map[string]bool `json:"featureGates,omitempty"`
	ReservedSystemCPUs string          `json:"reservedSystemCPUs,omitempty"`

	EnforceNodeAllocatable []string `json:"enforceNodeAllocatable,omitempty"`
	KubeReservedCgroup     string   `json:"kubeReservedCgroup,omitempty"`
	SystemReservedCgroup   string   `json:"systemReservedCgroup,omitempty"`
}
