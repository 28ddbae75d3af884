package admission

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/partition"
)

// ConvertStatic returns what a conversion changes in the manifest of a static pod, by the rules and
// with the errors of OpenShift's kubelet (pkg/kubelet/managed, openshift/kubernetes). No API server
// sees such a pod before it runs. Some rules differ from those of the policies (policy.yaml): a
// container has requests of CPU and of memory or of neither, a BestEffort pod stays as it is, and
// no namespace is asked.
func ConvertStatic(pod *v1.Pod) (Edit, error) {
	ask := partition.AskOf(pod.Annotations)
	switch ask.Flaw {
	case partition.FlawTwoTypes:
		return Edit{}, errors.New(twoTypes)
	case partition.FlawBadAnnotation:
		return Edit{}, errors.New(badEffect)
	}
	e := Edit{Remove: strip(pod.Annotations)}
	if ask.Type == "" {
		return e, nil
	}
	containers := containersOf(pod)
	class := classOf(containers)
	switch {
	case pod.Spec.Resources != nil:
		return skip(pod.Annotations, ask.Type, podLevelWarning), nil
	case class == v1.PodQOSGuaranteed:
		return skip(pod.Annotations, ask.Type, guaranteedWarning), nil
	}
	e.asks(ask.Type)
	for _, c := range containers {
		if err := e.static(ask.Type, c, pod.Annotations); err != nil {
			return Edit{}, err
		}
	}
	return e, nil
}

// static adds the conversion of a container of a static pod.
func (e *Edit) static(name string, c container, annotations map[string]string) error {
	_, hasCPU := c.request(v1.ResourceCPU)
	_, hasMemory := c.request(v1.ResourceMemory)
	milli, converted := c.converted(name, annotations)
	_, hasResource := c.request(resourceOf(name))
	switch {
	case hasCPU && !hasMemory:
		return fmt.Errorf("managed container %s does not have memory requests", c.name)
	case hasCPU:
		e.move(name, c)
	case converted:
		e.share(name, c.name, annotations[resourcesKey(c.name)], milli)
	case hasResource:
		return fmt.Errorf("container %s: %s", c.name, foreignResource)
	case hasMemory:
		return fmt.Errorf("managed container %s does not have cpu requests", c.name)
	}
	return nil
}

// Ask makes a pod ask for a type. It is an error if the pod asks for another one.
func Ask(pod *v1.Pod, name string) error {
	found := targets(pod.Annotations)
	if len(found) == 0 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, targetKey(name), Requested)
		return nil
	}
	if len(found) > 1 || found[0] != name {
		return errors.New("the pod asks for another workload type")
	}
	return nil
}
