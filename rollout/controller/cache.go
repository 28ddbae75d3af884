package controller

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/rollout/nodepod"
)

// cacheOptions keeps of each object what is decided by: 5,000 Nodes are some ten MB then.
func cacheOptions(namespace string) cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1.Node{}: {Transform: stripNode},
			&v1.Pod{}: {
				Transform: stripPod, Label: labels.SelectorFromSet(nodepod.Labels()),
				Namespaces: map[string]cache.Config{namespace: {}},
			},
		},
	}
}

// stripMeta returns the identity of an object, its labels, and its annotations of this project.
func stripMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	annotations := maps.Clone(m.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return !strings.HasPrefix(key, partition.LabelPrefix) || key == nodepod.SectionAnnotation
	})
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
		Annotations: annotations, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}

func stripNode(o any) (any, error) {
	n, ok := o.(*v1.Node)
	if !ok {
		return o, nil
	}
	stripped := &v1.Node{
		ObjectMeta: stripMeta(n.ObjectMeta), Spec: v1.NodeSpec{Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable},
	}
	stripped.Status.NodeInfo.MachineID = n.Status.NodeInfo.MachineID
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			// Without its heartbeat, which says nothing here, and its message.
			stripped.Status.Conditions = []v1.NodeCondition{
				{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime},
			}
		}
	}
	return stripped, nil
}

func stripPod(o any) (any, error) {
	p, ok := o.(*v1.Pod)
	if !ok {
		return o, nil
	}
	return &v1.Pod{ObjectMeta: stripMeta(p.ObjectMeta), Status: v1.PodStatus{
		Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message, Conditions: p.Status.Conditions,
		StartTime: p.Status.StartTime, ContainerStatuses: p.Status.ContainerStatuses,
	}}, nil
}
