package admission

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/text"
)

// Edit holds what a conversion changes in a pod. Its zero value changes nothing.
type Edit struct {
	// Warning says why a pod that asks for a type is not converted. Set has it, too.
	Warning string
	// Remove lists the keys of annotations that go, in order. Set may have some of them again.
	Remove []string
	// Set holds annotations.
	Set map[string]string
	// Resource is the resource of the type; empty if no container is converted.
	Resource v1.ResourceName
	// Milli holds, by container, the CPU that becomes the resource, as its request and its limit. It
	// is in thousandths of a CPU. Requests and limits of CPU go.
	Milli map[string]int64
}

// asks adds the annotations of a pod that is converted.
func (e *Edit) asks(workload string) {
	e.Resource = resourceOf(workload)
	e.Set = map[string]string{targetKey(workload): Requested}
}

// share adds the annotations of a container. document is the value of the enhancement's.
func (e *Edit) share(workload, container, value string, document int64) {
	e.Set[resourcesKey(container)] = value
	e.Set[documentKey(workload, container)] = strconv.FormatInt(document, 10)
}

// move converts the CPU of a container, which has some.
func (e *Edit) move(workload string, c container) {
	request, _ := c.request(v1.ResourceCPU)
	milli := text.MilliCPU(request)
	if e.Milli == nil {
		e.Milli = map[string]int64{}
	}
	e.Milli[c.name] = milli
	e.share(workload, c.name, annotationOf(milli, text.MilliCPU(c.limits[v1.ResourceCPU])), milli)
}

// skip returns the edit of a pod that is not converted: it does not ask any more, and a runtime
// that follows the annotations does nothing with it.
func skip(annotations map[string]string, workload, warning string) Edit {
	return Edit{
		Warning: warning,
		Remove:  append(strip(annotations), targetKey(workload)),
		Set:     map[string]string{warningKey: warning},
	}
}

// strip returns the annotations that only a conversion writes.
func strip(annotations map[string]string) []string {
	var keys []string
	for key := range annotations {
		if ofContainer(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
