package admission

import (
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/workload"
)

// Type is a workload type that all nodes of a cluster have.
type Type struct {
	Name string `json:"name"`
	// Namespaces lists the namespaces whose pods may ask for the type, by the configuration of the
	// nodes.
	Namespaces []string `json:"namespaces,omitempty"`
	// ByNamespace means that an annotation of the namespace gives that right, too.
	ByNamespace bool `json:"byNamespace,omitempty"`
	// Unconverted means that the Nodes do not have the resource of the type: its pods keep their CPU
	// requests.
	Unconverted bool `json:"unconverted,omitempty"`
}

// Namespace holds what is known of the namespace of a pod.
type Namespace struct {
	Name        string
	Annotations map[string]string
}

// The warnings of pods that are not converted. The first two words of most are OpenShift's.
const (
	unknownWarning = "skipping pod CPUs requests modifications because the nodes do not have the workload type"
	silentWarning  = "skipping pod CPUs requests modifications because the namespace is not annotated with " +
		"workload.openshift.io/allowed to allow workload partitioning"
	guaranteedWarning = "skip pod CPUs requests modifications because it has guaranteed QoS class"
	podLevelWarning   = "skip pod CPUs requests modifications because it has pod-level resources"
	classWarning      = "skip pod CPUs requests modifications because it will change the pod QoS class " +
		"from Burstable to BestEffort"
)

// effect matches the value of a target. OpenShift's API server asks for the effect, which a node
// does not.
var effect = regexp.MustCompile(`^[ \t\r\n]*[{][ \t\r\n]*"effect"[ \t\r\n]*:[ \t\r\n]*"` + workload.Preferred + `"` +
	`[ \t\r\n]*[}][ \t\r\n]*$`)

// Convert returns what admission changes in a pod that is created in a namespace. It does so as
// often as it is called: another plugin may change the pod between two calls, and what an earlier
// call has converted stays. Judge says whether the pod is admitted then.
func Convert(types []Type, in Namespace, pod *v1.Pod) Edit {
	//guard: a mirror pod is not converted
	if _, mirror := pod.Annotations[mirrorKey]; mirror || many(pod) {
		return Edit{}
	}
	asked := targets(pod.Annotations)
	e := Edit{Remove: strip(pod.Annotations)}
	if len(asked) != 1 {
		return e // for Judge
	}
	name := asked[0]
	switch right := rightOf(types, in, name); {
	case right == unknown:
		return skip(pod.Annotations, name, unknownWarning)
	case right == silent:
		return skip(pod.Annotations, name, silentWarning)
	case right == forbidden || !effect.MatchString(pod.Annotations[targetKey(name)]):
		return e // for Judge
	}
	return convert(pod, name, slices.ContainsFunc(types, func(t Type) bool { return t.Name == name && t.Unconverted }))
}

// The most annotations, containers and resources of a container of a pod that asks. They bound the
// time that an API server takes for the rules, and a conversion writes two annotations for each
// container.
const (
	MaxAnnotations = 256
	MaxContainers  = 100
	MaxResources   = 32
)

// many reports whether a pod has more than that.
func many(pod *v1.Pod) bool {
	containers := containersOf(pod)
	return len(pod.Annotations) > MaxAnnotations || len(containers) > MaxContainers ||
		slices.ContainsFunc(containers, func(c container) bool {
			return len(c.requests) > MaxResources || len(c.limits) > MaxResources
		})
}

// concerns reports whether the rules are about a pod: it asks, has annotations of a conversion, or
// requests the resource of a type. More annotations than MaxAnnotations are searched as one text,
// with their values.
func concerns(pod *v1.Pod) bool {
	for key, value := range pod.Annotations {
		for _, prefix := range []string{workload.TargetPrefix, resourcesPrefix, documentPrefix} {
			if strings.HasPrefix(key, prefix) ||
				len(pod.Annotations) > MaxAnnotations && strings.Contains(key+" "+value, prefix) {
				return true
			}
		}
	}
	return slices.ContainsFunc(containersOf(pod), container.requestsCores)
}

// convert returns the edit of a pod that may ask for a type. A node does not give a Guaranteed pod
// its type, with a resource or without.
func convert(pod *v1.Pod, name string, unconverted bool) Edit {
	containers := containersOf(pod)
	done := func(c container) bool {
		_, ok := c.converted(name, pod.Annotations)
		_, hasCPU := c.request(v1.ResourceCPU)
		//guard: CPU beside the resource counts, unless LimitRanger has set it
		//guard: the CPU that LimitRanger sets again after a conversion does not count
		return ok && (!hasCPU || c.limitRanged(pod.Annotations))
	}
	containers = withoutCPU(containers, done)
	class := classOf(containers)
	switch {
	case pod.Spec.Resources != nil && !unconverted:
		return skip(pod.Annotations, name, podLevelWarning)
	//guard: a Guaranteed pod is not converted
	case class == v1.PodQOSGuaranteed:
		return skip(pod.Annotations, name, guaranteedWarning)
	case unconverted:
		return Edit{Remove: strip(pod.Annotations)}
	//guard: a pod whose QoS class would change is not converted
	case class != classOf(withoutCPU(containers, func(container) bool { return true })):
		return skip(pod.Annotations, name, classWarning)
	}
	e := Edit{Remove: strip(pod.Annotations)}
	e.asks(name)
	for _, c := range containers {
		_, hasCPU := c.request(v1.ResourceCPU)
		switch {
		case class == v1.PodQOSBestEffort:
			e.share(name, c.name, annotationOf(0, 0), 0)
		case hasCPU:
			e.move(name, c)
		case done(c):
			milli, _ := c.converted(name, pod.Annotations)
			e.share(name, c.name, pod.Annotations[resourcesKey(c.name)], milli)
			e.Drop = append(e.Drop, c.name)
		}
	}
	return e
}

// right is the answer of a namespace to a type.
type right int

const (
	unknown   right = iota // the nodes do not have the type
	silent                 // the namespace does not say which types it allows
	forbidden              // it allows others
	allowed
)

func rightOf(types []Type, in Namespace, name string) right {
	at := slices.IndexFunc(types, func(t Type) bool { return t.Name == name })
	switch {
	case at == -1:
		return unknown
	case slices.Contains(types[at].Namespaces, in.Name),
		types[at].ByNamespace && slices.Contains(workload.Allowed(in.Annotations), name):
		return allowed
	}
	if workload.SaysAllowed(in.Annotations) {
		return forbidden
	}
	return silent
}
