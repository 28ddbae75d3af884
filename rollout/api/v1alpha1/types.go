// Package v1alpha1 has the API of a rollout: the type NodePartition.
//
// controller-gen writes the definition and the deep copies from it (make generate).
//
// +kubebuilder:object:generate=true
// +groupName=node-partition.io
package v1alpha1

import (
	v1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GroupVersion is the group and the version of the types.
var GroupVersion = schema.GroupVersion{Group: "node-partition.io", Version: "v1alpha1"}

// AddToScheme adds the types to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NodePartition{}, &NodePartitionList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// The conditions of a NodePartition.
const (
	// Accepted is true if the section and the selector are valid, and no older NodePartition selects a
	// node of this one. Nothing rolls while it is false.
	Accepted = "Accepted"
	// Progressing is true while nodes are changed.
	Progressing = "Progressing"
	// Available is true if each selected node has this version and this section, or cannot be changed.
	Available = "Available"
	// Degraded is true if a node has failed or refused, one of the first ones is not ready, or the
	// controller cannot act.
	Degraded = "Degraded"
)

// What becomes of nodes that are selected no longer.
const (
	Keep   = "Keep"
	Remove = "Remove"
)

// NodePartition gives the nodes of a pool a system partition.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=node-partition
// +kubebuilder:printcolumn:name=Selected,type=integer,JSONPath=`.status.nodes.selected`
// +kubebuilder:printcolumn:name=Current,type=integer,JSONPath=`.status.nodes.current`
// +kubebuilder:printcolumn:name=Updating,type=integer,JSONPath=`.status.nodes.updating`
// +kubebuilder:printcolumn:name=Failed,type=integer,JSONPath=`.status.nodes.failed`
// +kubebuilder:printcolumn:name=Skipped,type=integer,JSONPath=`.status.nodes.skipped`
// +kubebuilder:printcolumn:name=Refused,type=integer,JSONPath=`.status.nodes.refused`
// +kubebuilder:printcolumn:name=Available,type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Progressing")].message`
type NodePartition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NodePartitionSpec `json:"spec"`
	// +optional
	Status NodePartitionStatus `json:"status,omitzero"`
}

// NodePartitionSpec says which nodes have which partition, and how they get it.
type NodePartitionSpec struct {
	// The labels of the nodes. An empty selector selects all nodes. If several NodePartitions select a
	// node, the oldest has it.
	//
	// +required
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`
	// The taints that do not keep the partition from a node, as a pod has them. A node with another
	// taint of the effects NoSchedule or NoExecute is skipped.
	//
	// +optional
	// +listType=atomic
	Tolerations []v1.Toleration `json:"tolerations,omitempty"`
	// The content of /etc/kubernetes/node-partition.yaml, without apiVersion and kind.
	//
	// +required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Section apiextensionsv1.JSON `json:"section"`
	// Options of partition-monitor run, such as --per-pod-metrics.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	MonitorArgs []string `json:"monitorArgs,omitempty"`
	// +optional
	// +kubebuilder:default={}
	Rollout Rollout `json:"rollout,omitzero"`
	// Keep leaves a node that is no longer selected as it is. Remove takes the partition off it.
	//
	// +optional
	// +kubebuilder:default=Keep
	// +kubebuilder:validation:Enum=Keep;Remove
	Unselected string `json:"unselected,omitempty"`
}

// Rollout says in which steps the nodes change.
//
// +kubebuilder:object:generate=false
type Rollout struct {
	// The number of nodes that have to be current before the rest begins.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	First int32 `json:"first"`
	// The nodes that change at once: a number, or a share of the selected ones. A share is rounded
	// down, and is one node at least. Selected nodes that are not ready count, too.
	//
	// +optional
	// +kubebuilder:default="5%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 1",message="want 1 or more, or a share such as 5%"
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable,omitzero"`
	// The number of failed nodes with which the rollout goes on. One more stops it.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	MaxFailures int32 `json:"maxFailures"`
	// The time after which a node goes back, unless it was found well.
	//
	// +optional
	// +kubebuilder:default="10m"
	Trial metav1.Duration `json:"trial,omitzero"`
	// The time after a change of a node until another one takes its place.
	//
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="want 0s to 24h"
	Soak metav1.Duration `json:"soak,omitzero"`
	// No further node changes while it is true. Those that have begun end.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Each node is only asked whether it could have the partition. Nothing is written on it.
	//
	// +optional
	SurveyOnly bool `json:"surveyOnly,omitempty"`
}

// NodePartitionStatus is what the controller has seen last.
type NodePartitionStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// The SHA-256 of the file that the section becomes, in hexadecimal digits.
	//
	// +optional
	SectionHash string `json:"sectionHash,omitempty"`
	// The version of the programs.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Nodes Nodes `json:"nodes,omitzero"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Nodes counts nodes.
//
// +kubebuilder:object:generate=false
type Nodes struct {
	// The nodes that this NodePartition has, those that are deleted or no longer selected included
	// while they are changed.
	Selected int32 `json:"selected"`
	// Those that have this version and this section.
	Current int32 `json:"current"`
	// Those that change, and those whose soak has not ended.
	Updating int32 `json:"updating"`
	// Those whose last try has failed.
	Failed int32 `json:"failed"`
	// Those that cannot be changed now: not ready, cordoned, tainted, or of another kind.
	Skipped int32 `json:"skipped"`
	// Those that have refused before anything was written.
	Refused int32 `json:"refused"`
}

// NodePartitionList is a list of NodePartitions.
//
// +kubebuilder:object:root=true
type NodePartitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePartition `json:"items"`
}
