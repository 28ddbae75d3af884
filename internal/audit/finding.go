package audit

// Severity is the severity of a finding.
type Severity string

// The severities.
const (
	// Error means that a protection of the node or of pods is missing, or wrong.
	Error Severity = "error"
	// warning means that the node works, with a risk or with values of unknown origin.
	warning Severity = "warning"
)

// Finding is a value that differs from the expected one. Its JSON is for scripts: new versions add
// fields and do not change them.
type Finding struct {
	// Rule is the name of the rule. Names never change.
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// Path is the file, the kernel parameter or the property of a unit.
	Path     string `json:"path"`
	Value    string `json:"value"`
	Expected string `json:"expected"`
	// Why explains the expectation, and Document is the address or the manual page with the reasons.
	Why      string `json:"why"`
	Document string `json:"document"`
	// Cure is a command for a shell of root, or begins with "set" if the kubelet's configuration has
	// to change.
	Cure string `json:"cure"`
}

// Formulas holds the names of the formulas, linear or quadratic, by which the kubelet and the
// runtime write the cpu.weight of slices and of containers. A name is empty if no cgroup shows it.
type Formulas struct {
	Kubelet string `json:"kubelet"`
	Runtime string `json:"runtime"`
}

// Report is the result of an audit.
type Report struct {
	Formulas Formulas  `json:"formulas"`
	Findings []Finding `json:"findings"`
	// NotChecked lists what could not be checked, with the reason.
	NotChecked []string `json:"notChecked"`
}

// The documents of findings.
const (
	docReserve   = "https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/"
	docCgroups   = "https://kep.k8s.io/2254"
	docWeight    = "https://kubernetes.io/blog/2026/01/30/new-cgroup-v1-to-v2-cpu-conversion-formula/"
	docQoS       = "https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/"
	docResources = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"
	docAsked     = "https://github.com/openshift/enhancements/blob/master/enhancements/workload-partitioning/management-workload-partitioning.md"
	docPIDs      = "https://kubernetes.io/docs/concepts/policy/pid-limiting/"
	docCPUs      = "https://kubernetes.io/docs/concepts/policy/node-resource-managers/"
	docOOM       = "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#node-out-of-memory-behavior"
	docKubelet   = "https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/"
	docPartition = "https://kep.k8s.io/5894"
	docWriter    = "https://systemd.io/CGROUP_DELEGATION/"
	docSystemd   = "https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-systemd.md"
	docOomd      = "systemd-oomd.service(8), systemd.resource-control(5)"
)
