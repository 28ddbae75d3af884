package admission

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	sums "k8s.io/component-helpers/resource"

	"node-partition.io/node-partition/internal/text"
)

// CPU is CPU time in thousandths of a CPU. Zero means none.
type CPU struct {
	Request int64 `json:"request"`
	Limit   int64 `json:"limit,omitempty"`
}

// PodCPU is the CPU time that a pod has by the resource of a workload type. The kubelet knows
// nothing of it.
type PodCPU struct {
	// Type is the workload type.
	Type string `json:"type"`
	// CPU is the sum of the pod, counted as the kubelet counts requests and limits of CPU. Without a
	// request of the resource it is zero. The limit is zero if a container has no limit of either
	// kind.
	CPU
	// Containers holds the containers that request the resource, by name.
	Containers map[string]CPU `json:"containers,omitempty"`
	// Flaw describes the first annotation that is not followed; empty for none.
	Flaw string `json:"-"`
}

// CPUOf returns the CPU time of a pod that asks for a type. The requests of the resource decide:
// the API server has checked them, and the scheduler has counted them. Shares of an annotation can
// only say the same. A limit is in an annotation alone, and takes from its own container. An
// annotation counts for nothing if one of its values is not a number within bounds, or not the
// shares of the request. cpuset is never read, and neither are annotations of a container that does
// not request the resource.
func CPUOf(pod *v1.Pod, workload string) PodCPU {
	name := resourceOf(workload)
	all := PodCPU{Type: workload}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			request := boundedBy(list[i].Resources.Requests[name], text.MaxMilliCPU)
			//guard: the annotation of a container without the resource is not read
			if request <= 0 {
				continue
			}
			limit, flaw := annotated(pod.Annotations, workload, list[i].Name, request)
			if flaw != nil && all.Flaw == "" {
				all.Flaw = fmt.Sprintf("container %s: %v", list[i].Name, flaw)
			}
			if all.Containers == nil {
				all.Containers = map[string]CPU{}
			}
			all.Containers[list[i].Name] = CPU{request, limit}
		}
	}
	if all.Containers == nil {
		return all
	}
	requests := sums.PodRequests(pod, sums.PodResourcesOptions{})
	all.CPU = CPU{boundedBy(requests[name], text.MaxMilliCPU), all.limit(pod)}
	return all
}

// Annotated returns the CPU time of a pod that asks for a type, by the annotations that a
// conversion writes. It stands in for CPUOf where nothing reports the pod's requests. A container
// counts if its annotations say the same. The request of the pod is the sum of all containers,
// because annotations do not say which of them are init containers, and it has no limit. Whoever
// writes the annotations chooses the figures: they may count only for a pod with a right to the
// type.
func Annotated(annotations map[string]string, workload string) PodCPU {
	all := PodCPU{Type: workload}
	if workload == "" {
		return all
	}
	for key, value := range annotations {
		name, ok := strings.CutPrefix(key, documentKey(workload, ""))
		if !ok || value == "0" { // a BestEffort pod
			continue
		}
		request, err := strconv.ParseInt(value, 10, 64)
		//guard: an annotated request has bounds
		if err != nil || request <= 0 || request > text.MaxMilliCPU {
			err = fmt.Errorf("%s is not a whole number of thousandths of a CPU", key)
		}
		var limit int64
		if err == nil {
			limit, err = annotated(annotations, workload, name, request)
		}
		if err != nil {
			all.Flaw = max(all.Flaw, fmt.Sprintf("container %s: %v", name, err)) // the same in each reconcile
			continue
		}
		if all.Containers == nil {
			all.Containers = map[string]CPU{}
		}
		all.Containers[name] = CPU{request, limit}
		all.Request = AddMilliCPU(all.Request, request)
	}
	return all
}

// Without returns the CPU time less some containers, as Annotated sums it.
func (p PodCPU) Without(left func(container string) bool) PodCPU {
	p.Request = 0
	for name, of := range p.Containers {
		if !left(name) {
			p.Request = AddMilliCPU(p.Request, of.Request)
		}
	}
	return p
}

// boundedBy returns a quantity as a whole number from 0 to a maximum. Users may write any quantity.
func boundedBy(q resource.Quantity, most int64) int64 {
	//guard: a request of the resource has bounds
	if q.CmpInt64(most) > 0 {
		return most
	}
	return max(q.Value(), 0)
}

// limit returns the limit of the pod as a whole. A pod has one if each of its containers has one,
// init containers too (ResourceConfigForPod, pkg/kubelet/cm/helpers_linux.go).
func (p PodCPU) limit(pod *v1.Pod) int64 {
	limited := &v1.Pod{}
	for from, to := range map[*[]v1.Container]*[]v1.Container{
		&pod.Spec.InitContainers: &limited.Spec.InitContainers, &pod.Spec.Containers: &limited.Spec.Containers,
	} {
		for i := range *from {
			c := &(*from)[i]
			milli := text.MilliCPU(c.Resources.Limits[v1.ResourceCPU])
			if milli <= 0 {
				milli = p.Containers[c.Name].Limit
			}
			if milli <= 0 {
				return 0
			}
			limits := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
			*to = append(*to, v1.Container{
				Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: v1.ResourceRequirements{Limits: limits},
			})
		}
	}
	sum := sums.PodLimits(limited, sums.PodResourcesOptions{})
	return text.MilliCPU(sum[v1.ResourceCPU])
}

// maxAnnotation bounds the annotation of a container in bytes. A conversion writes 40 at most.
const maxAnnotation = 1 << 10

// annotated returns the CPU limit of a container that requests the resource, and what is wrong with
// its annotations. An annotation with another value than the request says counts for nothing.
func annotated(annotations map[string]string, workload, container string, request int64) (int64, error) {
	if value, ok := annotations[documentKey(workload, container)]; ok && value != strconv.FormatInt(request, 10) {
		return 0, fmt.Errorf("%s is not %d, which the container requests", documentKey(workload, container), request)
	}
	key := resourcesKey(container)
	value, ok := annotations[key]
	if !ok {
		return 0, nil
	}
	var found struct {
		Shares *json.Number `json:"cpushares"`
		Limit  *json.Number `json:"cpulimit"`
	}
	if len(value) > maxAnnotation || json.Unmarshal([]byte(value), &found) != nil {
		return 0, fmt.Errorf(`%s is not an object such as {"cpushares":409,"cpulimit":1000}`, key)
	}
	//guard: shares that the request does not say count for nothing
	if want := sharesOf(request); found.Shares != nil && found.Shares.String() != want {
		return 0, fmt.Errorf("cpushares of %s is not %s, the shares of its request of %d", key, want, request)
	}
	if found.Limit == nil {
		return 0, nil
	}
	limit, err := found.Limit.Int64()
	//guard: a CPU limit of an annotation has bounds
	if err != nil || limit <= 0 || limit > maxWeighed {
		return 0, fmt.Errorf("cpulimit of %s is not a whole number from 1 to %d, in thousandths of a CPU", key, maxWeighed)
	}
	return limit, nil
}
