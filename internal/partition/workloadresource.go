package partition

import "strings"

// resourceSuffix ends the name of the extended resource of a type, in thousandths of a CPU. Both
// dialects have it.
const resourceSuffix = ".workload.openshift.io/cores"

// WorkloadResource returns the extended resource of a type, in which its pods request CPU time.
func WorkloadResource(workload string) string { return workload + resourceSuffix }

// WorkloadOf returns the type of an extended resource, and false for a resource of no type.
func WorkloadOf(resource string) (string, bool) {
	workload, ok := strings.CutSuffix(resource, resourceSuffix)
	return workload, ok && workload != ""
}
