package admission

import "node-partition.io/node-partition/internal/partition"

// Requested is the value of a target. Admission writes it in this form.
const Requested = `{"effect":"` + partition.PreferredEffect + `"}`

// What is said of pods that are not converted, or refused. Package policy says the same. None has
// an apostrophe. The first two words of a warning are OpenShift's.
const (
	guaranteedWarning = "skip pod CPUs requests modifications because it has guaranteed QoS class"
	podLevelWarning   = "skip pod CPUs requests modifications because it has pod-level resources"
	twoTypes          = "the pod can not have more than one workload annotation"
	badEffect         = `want the value {"effect": "PreferredDuringScheduling"} of a workload annotation: ` +
		"it is the only effect that is supported"
	foreignResource = "a container can not request workload resources: want a request of cpu, which is converted, " +
		"in a pod with one workload annotation"
)
