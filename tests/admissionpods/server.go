package admissionpods

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/partition"
)

// Server stands in for an API server.
type Server struct {
	// Convert changes a pod, and Judge returns why it is refused.
	Convert func(*v1.Pod)
	Judge   func(*v1.Pod) error
	// In is the namespace. Its annotations are known to Convert and Judge.
	In Namespace
}

// AdmissionTypes returns the types of the table by name. The node's rule says who may ask.
func (t Table) AdmissionTypes() []admission.Type {
	types := make([]admission.Type, 0, len(t.Types))
	for _, w := range t.workloads() {
		types = append(types, admission.Type{
			Name: w.Type, Namespaces: t.rules().MayAsk(w), ByNamespace: w.ByNamespace, Unconverted: !w.Advertise,
		})
	}
	return types
}

// workloads returns the types as a node has them, by name.
func (t Table) workloads() []partition.Workload {
	list := make([]partition.Workload, 0, len(t.Types))
	for _, name := range slices.Sorted(maps.Keys(t.Types)) {
		of := t.Types[name]
		list = append(list, partition.Workload{
			Type: name, Partition: partition.Name(name), Allowed: of.Namespaces, ByNamespace: !of.Silent,
			Advertise: !of.Unconverted, CPUs: 1,
		})
	}
	return list
}

// rules returns the rules of a node with the types.
func (t Table) rules() partition.Rules {
	var rules partition.Rules
	for name, of := range t.Types {
		rules.Add(partition.Name(name), of.Members...)
	}
	return rules.With(t.workloads())
}

// Create returns the outcome of a pod. As on an API server, LimitRanger and the conversion run once
// more after another plugin has changed the pod.
func (s Server) Create(pod *v1.Pod) Outcome {
	SetDefaults(pod)
	s.limitRanger(pod)
	s.Convert(pod)
	if s.In.Injects {
		pod.Spec.Containers = append(pod.Spec.Containers, proxy())
	}
	SetDefaults(pod)
	s.limitRanger(pod)
	s.Convert(pod)
	if err := s.Judge(pod); err != nil {
		return Outcome{Refused: err.Error()}
	}
	return OutcomeOf(pod, ClassOf(pod))
}

// proxy is the sidecar that tests/e2e/kubeapi has another policy add.
func proxy() v1.Container {
	return v1.Container{Name: "proxy", Image: "none", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("1Mi")},
		Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
	}}
}

// SetDefaults does what the API server does with resources (SetDefaults_Pod and
// SetDefaults_ResourceList, pkg/apis/core/v1, v1.37.0).
func SetDefaults(pod *v1.Pod) {
	each(pod, func(c *v1.Container) {
		for name, q := range c.Resources.Limits {
			if _, ok := c.Resources.Requests[name]; !ok {
				if c.Resources.Requests == nil {
					c.Resources.Requests = v1.ResourceList{}
				}
				c.Resources.Requests[name] = q
			}
		}
		for _, list := range []v1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for name, q := range list {
				q.RoundUp(resource.Milli)
				list[name] = q
			}
		}
	})
}

func each(pod *v1.Pod, do func(*v1.Container)) {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			do(&list[i])
		}
	}
}

// limitRanger does what the plugin does with defaults.
func (s Server) limitRanger(pod *v1.Pod) {
	if s.In.LimitRange == nil {
		return
	}
	note := ""
	each(pod, func(c *v1.Container) {
		what := " for container " + c.Name
		if slices.ContainsFunc(pod.Spec.InitContainers, func(init v1.Container) bool { return init.Name == c.Name }) {
			what = " for init container " + c.Name
		}
		add(&note, setMissing(&c.Resources.Requests, s.In.LimitRange.DefaultRequest), " request"+what)
		add(&note, setMissing(&c.Resources.Limits, s.In.LimitRange.Default), " limit"+what)
	})
	if note != "" {
		pod.Annotations["kubernetes.io/limit-ranger"] = "LimitRanger plugin set: " + note
	}
}

func setMissing(list *v1.ResourceList, from v1.ResourceList) (set string) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = v1.ResourceList{}
		}
		(*list)[name] = from[name]
		add(&set, string(name), "")
	}
	return set
}

func add(to *string, set, what string) {
	switch {
	case set == "":
	case *to == "":
		*to = set + what
	case what == "":
		*to += ", " + set
	default:
		*to += "; " + set + what
	}
}

// ClassOf returns the QoS class of a pod, as the API server has it in the status. The sums of
// requests and of limits decide (GetPodQOS, pkg/apis/core/v1/helper/qos, before v1.32).
func ClassOf(pod *v1.Pod) v1.PodQOSClass {
	if r := pod.Spec.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		pod = &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: *pod.Spec.Resources}}}}
	}
	requests, limits, limited := v1.ResourceList{}, v1.ResourceList{}, true
	each(pod, func(c *v1.Container) {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			limit := c.Resources.Limits[name]
			limited = limited && !limit.IsZero()
			for sum, q := range map[*v1.ResourceList]resource.Quantity{&requests: c.Resources.Requests[name], &limits: limit} {
				if q.IsZero() {
					continue
				}
				total := (*sum)[name]
				total.Add(q)
				(*sum)[name] = total
			}
		}
	})
	switch {
	case len(requests) == 0 && len(limits) == 0:
		return v1.PodQOSBestEffort
	case limited && len(requests) == len(limits) && maps.EqualFunc(requests, limits, resource.Quantity.Equal):
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}
