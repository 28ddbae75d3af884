package cluster

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/fleet"
	"nodepartition/internal/oneline"
)

// resource is a kind of object at the API server.
type resource string

const (
	nodes      resource = "nodes"
	jobs       resource = "jobs"
	pods       resource = "pods"
	leases     resource = "leases"
	configMaps resource = "configmaps"
)

// path returns the path of a collection.
func (c *Client) path(r resource) string {
	switch r {
	case nodes:
		return "/api/v1/nodes"
	case jobs:
		return "/apis/batch/v1/namespaces/" + c.place.Namespace + "/jobs"
	case leases:
		return "/apis/coordination.k8s.io/v1/namespaces/" + c.place.LockNamespace + "/leases"
	default:
		return "/api/v1/namespaces/" + c.place.Namespace + "/" + string(r)
	}
}

// object is an object of a kind that is watched.
type object interface {
	meta() *metadata
	change() fleet.Change
}

// metadata is the part of the metadata of an object that is read.
type metadata struct {
	Name              string                  `json:"name"`
	UID               string                  `json:"uid"`
	ResourceVersion   string                  `json:"resourceVersion"`
	DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
	Labels            map[string]string       `json:"labels"`
	Annotations       map[string]string       `json:"annotations"`
	OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
}

// nodeObject is the part of a v1.Node that is read. A whole one has kilobytes of images.
type nodeObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Conditions []v1.NodeCondition `json:"conditions"`
	} `json:"status"`
}

func (o *nodeObject) meta() *metadata { return &o.Metadata }

func (o *nodeObject) change() fleet.Change {
	n := &fleet.Node{
		Name: o.Metadata.Name, UID: o.Metadata.UID, Labels: o.Metadata.Labels,
		Cordoned: o.Spec.Unschedulable, Leaving: o.Metadata.DeletionTimestamp != nil,
		NotReady: "its kubelet has not reported yet",
	}
	for i := range o.Status.Conditions {
		if condition := &o.Status.Conditions[i]; condition.Type == v1.NodeReady {
			n.Ready = condition.Status == v1.ConditionTrue
			n.NotReady = bounded(strings.TrimSuffix(condition.Reason+": "+condition.Message, ": "))
		}
	}
	if n.Ready {
		n.NotReady = ""
	}
	return fleet.Change{Node: n}
}

// jobObject is the part of a batchv1.Job that is read.
type jobObject struct {
	Metadata metadata `json:"metadata"`
	Status   struct {
		Conditions []batchv1.JobCondition `json:"conditions"`
	} `json:"status"`
}

func (o *jobObject) meta() *metadata { return &o.Metadata }

func (o *jobObject) change() fleet.Change { return fleet.Change{Job: o.job()} }

func (o *jobObject) job() *fleet.Job {
	j := fleet.NewJob(o.Metadata.Name, o.Metadata.UID, o.Metadata.Labels, o.Metadata.Annotations)
	j.Leaving = o.Metadata.DeletionTimestamp != nil
	for i := range o.Metadata.OwnerReferences {
		if owner := &o.Metadata.OwnerReferences[i]; owner.Kind == "ConfigMap" {
			j.Owner = string(owner.UID)
		}
	}
	for _, condition := range o.Status.Conditions {
		if condition.Status != v1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			j.Complete = true
		//guard: the Job of a node without power has failed at its deadline
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			// The controller sets JobFailed when no pod of the Job terminates any more
			// (enactJobFinished, pkg/controller/job, v1.37.0). The pod on a node that has lost its
			// power terminates for ever.
			j.Failed, j.Reason, j.Message = true, condition.Reason, condition.Message
		}
	}
	return j
}

// podObject is the part of a v1.Pod that is read.
type podObject struct {
	Metadata metadata `json:"metadata"`
	Status   struct {
		Phase                 v1.PodPhase          `json:"phase"`
		Reason                string               `json:"reason"`
		Message               string               `json:"message"`
		Conditions            []v1.PodCondition    `json:"conditions"`
		InitContainerStatuses []v1.ContainerStatus `json:"initContainerStatuses"`
		ContainerStatuses     []v1.ContainerStatus `json:"containerStatuses"`
	} `json:"status"`
}

func (o *podObject) meta() *metadata { return &o.Metadata }

func (o *podObject) change() fleet.Change { return fleet.Change{Pod: o.pod()} }

func (o *podObject) pod() *fleet.Pod {
	p := &fleet.Pod{}
	for _, owner := range o.Metadata.OwnerReferences {
		if owner.Kind == "Job" {
			p.JobUID = string(owner.UID)
		}
	}
	status := &o.Status
	for _, containers := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range containers {
			state := &containers[i].State
			if ended := state.Terminated; ended != nil && ended.ExitCode != 0 && p.Container == "" {
				p.Container, p.ExitCode, p.Reason, p.Message = containers[i].Name, ended.ExitCode, ended.Reason, ended.Message
			}
			// PodInitializing is the wait for the containers before.
			if waits := state.Waiting; waits != nil && waits.Reason != "PodInitializing" && p.Waits == "" {
				p.Waits = bounded("container " + containers[i].Name + " waits: " + waits.Reason + ": " + waits.Message)
			}
		}
	}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			p.Waits = bounded("its pod could not be scheduled: " + c.Message)
		}
	}
	if status.Phase == v1.PodFailed && p.Container == "" {
		p.Waits = bounded("its pod failed: " + status.Reason + ": " + status.Message)
	}
	return p
}

// bounded returns a text of another program on one line of bounded length.
func bounded(text string) string { return oneline.Record(text, 200) }
