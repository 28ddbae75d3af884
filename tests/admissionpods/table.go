// Package admissionpods holds a table of pods that ask for workload types, and what becomes of each
// of them when it is created. The policies have to give these results, evaluated by a test
// (rollout/charttest/policies) and on API servers (tests/e2e/kubeapi).
package admissionpods

import (
	_ "embed"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Table is the table.
type Table struct {
	// Types holds, by name, the types of the cluster.
	Types      map[string]Type      `json:"types"`
	Namespaces map[string]Namespace `json:"namespaces"`
	Pods       []Case               `json:"pods"`
}

// Type is a workload type of the cluster, with the namespaces that the nodes allow.
type Type struct {
	Namespaces []string `json:"namespaces,omitempty"`
	// Members lists the namespaces whose pods are members of the type's partition without asking.
	Members []string `json:"members,omitempty"`
	// Silent means that the annotation of a namespace does not count.
	Silent bool `json:"silent,omitempty"`
	// Unconverted means that its pods keep their CPU requests.
	Unconverted bool `json:"unconverted,omitempty"`
}

// Namespace holds what a namespace has.
type Namespace struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	// LimitRange holds the defaults for containers.
	LimitRange *v1.LimitRangeItem `json:"limitRange,omitempty"`
	// Quota holds the limits of a ResourceQuota.
	Quota v1.ResourceList `json:"quota,omitempty"`
	// Injects means that another policy adds a sidecar, before ours or after it.
	Injects bool `json:"injects,omitempty"`
}

// Case is a pod that is created.
type Case struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Asks lists types to ask for, in the usual form.
	Asks        []string          `json:"asks,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Containers, Init and Sidecars hold the resources of the containers, which are named c0, c1 and
	// so on, i0 and s0.
	Containers []v1.ResourceRequirements `json:"containers"`
	Init       []v1.ResourceRequirements `json:"init,omitempty"`
	Sidecars   []v1.ResourceRequirements `json:"sidecars,omitempty"`
	// Spec is the rest of the pod's spec.
	Spec v1.PodSpec `json:"spec,omitempty"`
	// Server is a part of the message of another part of the API server, which refuses the pod.
	Server string `json:"server,omitempty"`
}

// Outcome is the result of a creation.
type Outcome struct {
	// Refused is the message of a refusal, and the other fields are empty then.
	Refused     string                             `json:"refused,omitempty"`
	Class       v1.PodQOSClass                     `json:"class,omitempty"`
	Annotations map[string]string                  `json:"annotations,omitempty"`
	Containers  map[string]v1.ResourceRequirements `json:"containers,omitempty"`
}

//go:embed pods.yaml
var pods []byte

//go:embed expected.yaml
var expected []byte

// Load returns the table, and the wanted outcome of each case by its name.
func Load(tb testing.TB) (Table, map[string]Outcome) {
	tb.Helper()
	var table Table
	wanted := map[string]Outcome{}
	if err := yaml.UnmarshalStrict(pods, &table); err != nil {
		tb.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(expected, &wanted); err != nil {
		tb.Fatal(err)
	}
	return table, wanted
}

// asked is the value of a target annotation.
const asked = `{"effect": "PreferredDuringScheduling"}`

// Pod returns the pod of a case.
func (c Case) Pod() *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Namespace: c.Namespace, Annotations: map[string]string{}},
		Spec:       *c.Spec.DeepCopy(),
	}
	for _, name := range c.Asks {
		pod.Annotations["target.workload.openshift.io/"+name] = asked
	}
	for key, value := range c.Annotations {
		pod.Annotations[key] = value
	}
	pod.Spec.Containers = containers("c", c.Containers)
	pod.Spec.InitContainers = append(containers("i", c.Init), containers("s", c.Sidecars)...)
	always := v1.ContainerRestartPolicyAlways
	for i := range c.Sidecars {
		pod.Spec.InitContainers[len(c.Init)+i].RestartPolicy = &always
	}
	return pod
}

func containers(prefix string, resources []v1.ResourceRequirements) []v1.Container {
	list := make([]v1.Container, 0, len(resources))
	for i := range resources {
		list = append(list, v1.Container{
			Name: prefix + string(rune('0'+i)), Image: "none", Resources: *resources[i].DeepCopy(),
		})
	}
	return list
}

// OutcomeOf returns the outcome of a pod that was created.
func OutcomeOf(pod *v1.Pod, class v1.PodQOSClass) Outcome {
	o := Outcome{Class: class, Annotations: pod.Annotations, Containers: map[string]v1.ResourceRequirements{}}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			o.Containers[list[i].Name] = list[i].Resources
		}
	}
	return o
}

// String returns the outcome as YAML, in one form for equal outcomes.
func (o Outcome) String() string {
	text, err := yaml.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
