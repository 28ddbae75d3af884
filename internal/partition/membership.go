package partition

import "slices"

// This file decides which partition a pod belongs to. The generator, placement over NRI and in
// reconciles, the audit, the plan and the status ask it, so that all of them follow one rule.

// Workload is a workload type. A pod that asks for it by annotation belongs to the partition, if it
// has a right to: its namespace is allowed or is the partition's, or it is a static pod.
type Workload struct {
	Type      string `json:"type"`
	Partition Name   `json:"partition"`
	// Allowed lists the namespaces whose pods have the right, by the node's own configuration.
	Allowed []string `json:"allowed,omitempty"`
	// ByNamespace means that every pod that asks has the right. The policies of the API server let
	// only those ask whose namespace allows it by an annotation.
	ByNamespace bool `json:"byNamespace,omitempty"`
	// Advertise means that the node's capacity of the type is on its Node. It has no part in who is a
	// member.
	Advertise bool `json:"advertise,omitempty"`
	// CPUs counts the CPUs of the partition's cpuset; 0 without one. They bound what the resource adds
	// to the weight of the partition.
	CPUs int `json:"cpus,omitempty"`
}

// Equal reports whether the same is to be followed of two types.
func (w Workload) Equal(other Workload) bool {
	return w.Type == other.Type && w.Partition == other.Partition && w.ByNamespace == other.ByNamespace &&
		w.Advertise == other.Advertise && w.CPUs == other.CPUs && slices.Equal(w.Allowed, other.Allowed)
}

// Pod holds what decides about a pod's membership.
type Pod struct {
	Namespace string
	// Guaranteed is the pod's QoS class. Such a pod has CPUs by the kubelet's own means, and is not a
	// member by annotation.
	Guaranteed bool
	Origin
}

// Origin holds what the annotations of a pod, or of its sandbox, say about it.
type Origin struct {
	// Static means that the kubelet read the pod from a file or a URL. The kubelet overwrites what the
	// pod's author says of that.
	Static bool
	// Ask is the workload type that the annotations ask for.
	Ask Ask
}

// OriginOf reads annotations.
func OriginOf(annotations map[string]string) Origin {
	return Origin{Static: isStatic(annotations), Ask: AskOf(annotations)}
}

// configSource is the annotation in which the kubelet notes the source of a pod. It overwrites the
// value of the pod's author (ConfigSourceAnnotationKey, pkg/kubelet/types/pod_update.go; set in
// pkg/kubelet/config/config.go).
const configSource = "kubernetes.io/config.source"

// isStatic is the kubelet's IsStaticPod: any source but the API server. An empty source is not
// static.
func isStatic(annotations map[string]string) bool {
	source := annotations[configSource]
	return source != "" && source != "api"
}

// By is the right by which a pod belongs to a partition.
type By string

// The rights.
const (
	// ByNamespace means that every pod of the namespace is a member.
	ByNamespace By = "namespace"
	// ByAllowedNamespace means that the pod asks, and the configuration allows its namespace.
	ByAllowedNamespace By = "allowed-namespace"
	// ByNamespaceAnnotation means that the pod asks, and the API server has let it: an annotation of
	// its namespace allows it.
	ByNamespaceAnnotation By = "namespace-annotation"
	// ByStatic means that the static pod asks.
	ByStatic By = "static"
)

// Rights returns all of them, for metrics that must have a value before the first.
func Rights() []By { return []By{ByNamespace, ByAllowedNamespace, ByNamespaceAnnotation, ByStatic} }

// Refusal is one of a fixed set of reasons why a pod does not get the type that it asks for.
type Refusal string

// The refusals. The first two are flaws of the annotations.
const (
	TwoTypes      = Refusal(FlawTwoTypes)
	BadAnnotation = Refusal(FlawBadAnnotation)
	// UnknownType means that the node has no such type.
	UnknownType Refusal = "unknown-type"
	// IsGuaranteed means that the pod has the class Guaranteed.
	IsGuaranteed Refusal = "guaranteed"
	// NotAllowed means that the configuration does not allow it.
	NotAllowed Refusal = "not-allowed"
)

// Refusals returns all of them, for metrics that must have a value before the first.
func Refusals() []Refusal {
	return []Refusal{TwoTypes, BadAnnotation, UnknownType, IsGuaranteed, NotAllowed}
}

// Place holds where a pod belongs, and why.
type Place struct {
	Partition Name
	// Type is the workload type by which the pod is a member, or would be if it were not refused. It
	// is empty without one.
	Type string
	// By is empty in the default partition.
	By By
	// Resource means that the pod asks for its type with a right to it, and that the type has a
	// resource on the Node. The pod has the CPU time that it requests of the resource.
	Resource bool
	// Refused is empty if the pod asks for nothing, and if it gets what it asks for.
	Refused Refusal
}

// Rules decides which partition a pod belongs to. In its zero value all pods belong to the default
// partition.
type Rules struct {
	namespaces map[string]Name
	workloads  map[string]Workload
}

// Add adds the namespaces whose pods belong to a partition. A namespace that another one has stays
// with that.
func (r *Rules) Add(partition Name, namespaces ...string) {
	if r.namespaces == nil {
		r.namespaces = map[string]Name{}
	}
	for _, namespace := range namespaces {
		if _, taken := r.namespaces[namespace]; !taken {
			r.namespaces[namespace] = partition
		}
	}
}

// With returns the rules with workload types.
func (r Rules) With(workloads []Workload) Rules {
	r.workloads = make(map[string]Workload, len(workloads))
	for _, w := range workloads {
		r.workloads[w.Type] = w
	}
	return r
}

// Partition returns the partition that a pod belongs to.
func (r Rules) Partition(p Pod) Name { return r.Place(p).Partition }

// Place returns the partition that a pod belongs to, and why. An annotation with a right comes
// before the pod's namespace. One without a right changes nothing.
func (r Rules) Place(p Pod) Place {
	place := Place{Partition: Default}
	if partition, ok := r.namespaces[p.Namespace]; ok {
		place = Place{Partition: partition, By: ByNamespace}
		if _, ok := r.workloads[string(partition)]; ok {
			place.Type = string(partition)
		}
	}
	//guard: annotations mean nothing on a node without types
	if p.Ask == (Ask{}) || len(r.workloads) == 0 {
		return place
	}
	asked, refused := r.asked(p)
	if refused == "" {
		return asked
	}
	place.Refused = refused
	if place.By == "" {
		place.Type = p.Ask.Type
	}
	return place
}

// MayAsk lists the namespaces whose pods may ask for a type by the node's own configuration: those
// that the type allows, and those whose pods are members of its partition without asking.
func (r Rules) MayAsk(w Workload) []string {
	list := slices.Clone(w.Allowed)
	for namespace, partition := range r.namespaces {
		if partition == w.Partition {
			list = append(list, namespace)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// asked returns the place that a pod asks for, or why it does not get it.
func (r Rules) asked(p Pod) (Place, Refusal) {
	if p.Ask.Flaw != "" {
		return Place{}, Refusal(p.Ask.Flaw)
	}
	w, ok := r.workloads[p.Ask.Type]
	if !ok {
		return Place{}, UnknownType
	}
	//guard: only the resource of a type that is on the Node gives CPU time
	place := Place{Partition: w.Partition, Type: w.Type, Resource: w.Advertise}
	switch {
	//guard: a Guaranteed pod is not a member by annotation
	case p.Guaranteed:
		return Place{}, IsGuaranteed
	case p.Static:
		place.By = ByStatic
	case slices.Contains(w.Allowed, p.Namespace):
		place.By = ByAllowedNamespace
	case r.namespaces[p.Namespace] == w.Partition: // a member that does not ask, too
		place.By = ByNamespace
	//guard: an annotation without a right gives nothing
	case w.ByNamespace:
		place.By = ByNamespaceAnnotation
	default:
		return Place{}, NotAllowed
	}
	return place, ""
}
