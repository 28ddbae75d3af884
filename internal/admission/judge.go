package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/workload"
)

// The reasons why a pod is refused. Package policy has the same texts.
var (
	errTwoTypes = errors.New("the pod can not have more than one workload annotation")
	errEffect   = errors.New(`want the value {"effect": "PreferredDuringScheduling"} of a workload annotation: ` +
		"it is the only effect that is supported")
	errResource = errors.New("a container can not request workload resources: want a request of cpu, which is converted, " +
		"in a pod with one workload annotation")
	errMany = fmt.Errorf("a pod with a workload annotation can not have more than %d annotations, %d containers, "+
		"or %d resources of a container", MaxAnnotations, MaxContainers, MaxResources)
	errAnnotation = errors.New("the annotations resources.workload.openshift.io/CONTAINER and " +
		"io.openshift.workload.TYPE.cpushares/CONTAINER are written by the conversion of cpu requests alone: remove them")
)

// Judge returns why a pod is refused when it is created, after all mutations; nil if it is not.
func Judge(types []Type, in Namespace, pod *v1.Pod) error {
	if _, mirror := pod.Annotations[mirrorKey]; mirror {
		return nil
	}
	//guard: a pod that takes an API server long is refused
	if many(pod) && concerns(pod) {
		return errMany
	}
	asked, containers := targets(pod.Annotations), containersOf(pod)
	name := ""
	switch len(asked) {
	case 0:
	case 1:
		name = asked[0]
		if rightOf(types, in, name) != allowed {
			return fmt.Errorf("the namespace %s does not allow the workload type %s", in.Name, name)
		}
		if !effect.MatchString(pod.Annotations[targetKey(name)]) {
			return errEffect
		}
	default:
		return errTwoTypes
	}
	for _, c := range containers {
		_, converted := c.converted(name, pod.Annotations)
		for _, list := range []v1.ResourceList{c.requests, c.limits} {
			for r := range list {
				if isCores(r) && (!converted || r != resourceOf(name)) {
					return errResource
				}
			}
		}
	}
	return judgeAnnotations(name, containers, pod.Annotations)
}

// isCores reports whether a resource is the one of some type.
func isCores(r v1.ResourceName) bool { return strings.HasSuffix(string(r), workload.Resource("")) }

// requestsCores reports whether a container requests the resource of some type.
func (c container) requestsCores() bool {
	return slices.ContainsFunc(slices.AppendSeq(slices.Collect(maps.Keys(c.requests)), maps.Keys(c.limits)), isCores)
}

// judgeAnnotations checks that each annotation of a container says what a conversion would.
func judgeAnnotations(name string, containers []container, annotations map[string]string) error {
	written := map[string]string{}
	bestEffort := name != "" && classOf(containers) == v1.PodQOSBestEffort
	for _, c := range containers {
		milli, converted := c.converted(name, annotations)
		e := Edit{Set: written}
		switch {
		case bestEffort:
			e.share(name, c.name, annotationOf(0, 0), 0)
		case converted:
			e.share(name, c.name, annotations[resourcesKey(c.name)], milli)
		}
	}
	for _, key := range strip(annotations) {
		if value, ok := written[key]; !ok || value != annotations[key] {
			return errAnnotation
		}
	}
	return nil
}
