package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"nodepartition/internal/nodelabel"
)

// afterTrial is the time that a Job without activeDeadlineSeconds has beside the trial: for its
// image, the stages before the trial and the last one.
const afterTrial = 10 * time.Minute

// Template is the Job of which each node is given a copy.
type Template struct{ job batchv1.Job }

// ParseTemplate reads the manifest of a Job. name is the file in errors. image is given to
// containers that name none. A removal has no trial: the deadline of its Job has no least value.
func ParseTemplate(name string, data []byte, image string, action Action, s Settings) (Template, error) {
	var t Template
	if err := yaml.UnmarshalStrict(data, &t.job); err != nil {
		return Template{}, fmt.Errorf("%s: want the manifest of a Job: %w", name, err)
	}
	if err := t.check(action, s); err != nil {
		return Template{}, fmt.Errorf("%s: %w", name, err)
	}
	spec := &t.job.Spec
	if spec.ActiveDeadlineSeconds == nil {
		seconds := int64((s.Trial + afterTrial) / time.Second)
		spec.ActiveDeadlineSeconds = &seconds
	}
	// A second pod would begin a second trial on the node.
	spec.BackoffLimit = new(int32)
	for _, list := range [][]v1.Container{spec.Template.Spec.InitContainers, spec.Template.Spec.Containers} {
		for i := range list {
			if list[i].Image == "" {
				list[i].Image = image
			}
			if list[i].Image == "" {
				return Template{}, fmt.Errorf("%s: container %s: has no image; name one there, or give --image", name, list[i].Name)
			}
		}
	}
	return t, nil
}

// check refuses what the dispatcher would have to change against the text of the template.
func (t *Template) check(action Action, s Settings) error {
	spec := &t.job.Spec
	pod := &spec.Template.Spec
	one := func(n *int32) bool { return n == nil || *n == 1 }
	deadline := spec.ActiveDeadlineSeconds
	switch {
	case t.job.Kind != "Job" || t.job.APIVersion != batchv1.SchemeGroupVersion.String():
		return fmt.Errorf("kind: %q of %q; want Job of batch/v1", t.job.Kind, t.job.APIVersion)
	case len(pod.Containers) == 0:
		return errors.New("spec.template.spec.containers: has none")
	case pod.RestartPolicy != v1.RestartPolicyNever:
		return fmt.Errorf(
			"spec.template.spec.restartPolicy: %q; want Never: a stage that has failed is not repeated on the node", pod.RestartPolicy)
	case spec.BackoffLimit != nil && *spec.BackoffLimit != 0:
		return fmt.Errorf("spec.backoffLimit: %d; want 0: a second pod would begin a second trial", *spec.BackoffLimit)
	case !one(spec.Completions) || !one(spec.Parallelism):
		return errors.New("spec.completions, spec.parallelism: want 1, or leave them out: a Job is for one node")
	case spec.Suspend != nil && *spec.Suspend:
		return errors.New("spec.suspend: true; leave it out: the Job would never run")
	case spec.TTLSecondsAfterFinished != nil:
		return errors.New(
			"spec.ttlSecondsAfterFinished: leave it out: a dispatcher that is started again counts the Jobs that have ended. " +
				"The next roll removes them")
	case pod.NodeName != "" || len(pod.NodeSelector) > 0 || pod.Affinity != nil:
		return errors.New("spec.template.spec: nodeName, nodeSelector and affinity: leave them out: each Job is for one node")
	case deadline != nil && *deadline < 1:
		return fmt.Errorf("spec.activeDeadlineSeconds: %d; want 1 or more", *deadline)
	case deadline != nil && action != Uninstall && time.Duration(*deadline)*time.Second <= s.Trial:
		return fmt.Errorf("spec.activeDeadlineSeconds: %d; want more than the trial of %s, or leave it out", *deadline, s.Trial)
	}
	return nil
}

// Owner is the object that Jobs are collected with.
type Owner struct{ Name, UID string }

// Deadline returns the time after which a Job ends as a failure.
func (t *Template) Deadline() time.Duration {
	return time.Duration(*t.job.Spec.ActiveDeadlineSeconds) * time.Second
}

// For returns the Job of a node: the template with its name, its labels, the node and the owner.
//
// The pod is bound to the node as the pods of a DaemonSet are: by an affinity to the name of the
// Node, so that the scheduler sees the tolerations of the template, the room on the node and a
// cordon (ReplaceDaemonSetPodNodeNameNodeAffinity, pkg/controller/daemon/util, v1.37.0).
func (t *Template) For(n *Node, p Plan, owner Owner) *batchv1.Job {
	job := t.job.DeepCopy()
	job.Status = batchv1.JobStatus{}
	marks := map[string]string{
		RollLabel: p.Roll, NodeLabel: nodeValue(n.Name), ActionLabel: string(p.Action),
	}
	notes := map[string]string{
		NodeNameAnnotation: n.Name, nodeUIDAnnotation: n.UID, nodelabel.Version: p.Version, nodelabel.Section: p.Section,
	}
	job.ObjectMeta = metav1.ObjectMeta{
		Name:        jobName(p.Roll, n),
		Labels:      merged(job.Labels, marks),
		Annotations: merged(job.Annotations, notes),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: types.UID(owner.UID),
		}},
	}
	pod := &job.Spec.Template
	pod.Labels = merged(pod.Labels, marks)
	pod.Annotations = merged(pod.Annotations, map[string]string{NodeNameAnnotation: n.Name})
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{n.Name},
			}},
		}}},
	}}
	env := p.environment(n)
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			// Ours come first, so that the template's own may name them.
			list[i].Env = append(slices.Clone(env), list[i].Env...)
		}
	}
	return job
}

// environment returns the variables that each container has. The arguments of the template name
// them as $(NODE_PARTITION_NODE).
func (p *Plan) environment(n *Node) []v1.EnvVar {
	s := &p.Settings
	variables := []v1.EnvVar{
		{Name: "NODE_PARTITION_NODE", Value: n.Name},
		{Name: "NODE_PARTITION_ROLL", Value: p.Roll},
		{Name: "NODE_PARTITION_VERSION", Value: p.Version},
		{Name: "NODE_PARTITION_TRIAL", Value: s.Trial.String()},
		{Name: "NODE_PARTITION_NRI", Value: s.NRI},
		{Name: "NODE_PARTITION_MONITOR_ARGS", Value: s.MonitorArgs},
	}
	for i := range variables {
		// The kubelet would expand what looks like a variable (Expand,
		// third_party/forked/golang/expansion, k8s.io/kubernetes v1.37.0).
		//guard: a value does not expand as a variable
		variables[i].Value = strings.ReplaceAll(variables[i].Value, "$", "$$")
	}
	return variables
}

func merged(under, over map[string]string) map[string]string {
	all := maps.Clone(under)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, over)
	return all
}
