package admission

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
)

// The keys of annotations that a conversion writes. OpenShift ships the first key, and the
// enhancement has the second. Those by which pods ask, and namespaces allow, are in workload.
const (
	resourcesPrefix = "resources.workload.openshift.io/"
	documentPrefix  = "io.openshift.workload."
	// warningKey has the reason why a pod that asks for a type was not converted.
	warningKey = "workload.openshift.io/warning"
)

// resourceOf returns the resource of a workload type as a list of resources has it.
func resourceOf(name string) v1.ResourceName {
	return v1.ResourceName(partition.WorkloadResource(name))
}

// targetKey returns the key of the annotation by which a pod asks for a type.
func targetKey(name string) string { return partition.TargetPrefix + name }

// resourcesKey returns the key of the annotation of a container, as OpenShift ships it.
func resourcesKey(container string) string { return resourcesPrefix + container }

// documentKey returns the key of the annotation of a container in the enhancement.
func documentKey(workload, container string) string {
	return documentPrefix + workload + ".cpushares/" + container
}

// ofContainer reports whether a key is one that only a conversion writes. A runtime that follows it
// takes CPU shares and a CPU set from it.
func ofContainer(key string) bool {
	return strings.HasPrefix(key, resourcesPrefix) || strings.HasPrefix(key, documentPrefix)
}

// targets returns the workload types that annotations ask for.
func targets(annotations map[string]string) []string {
	var types []string
	for key := range annotations {
		if name, ok := strings.CutPrefix(key, partition.TargetPrefix); ok {
			types = append(types, name)
		}
	}
	return types
}
