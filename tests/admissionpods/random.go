package admissionpods

import (
	"math/rand/v2"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodepartition/internal/admission"
)

// RandomNamespace returns a namespace that may allow the types a and b.
func RandomNamespace(r *rand.Rand) admission.Namespace {
	return admission.Namespace{
		Name: one(r, "listed", "plain"),
		Annotations: []map[string]string{
			nil, {"workload.openshift.io/allowed": "a,b"}, {"allowed.workload.openshift.io": " a"}, {"workload.openshift.io/allowed": "c"},
		}[r.IntN(4)],
	}
}

func one(r *rand.Rand, values ...string) string { return values[r.IntN(len(values))] }

// RandomPod returns a pod with few containers and values, so that they meet.
func RandomPod(r *rand.Rand) *v1.Pod {
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{"other": "x"}
	for range r.IntN(3) {
		pod.Annotations["target.workload.openshift.io/"+one(r, "a", "a", "a", "b", "c")] = one(r, asked, asked, asked, " "+asked+"\n", "{}", "")
	}
	for i := range 1 + r.IntN(3) {
		c := v1.Container{Name: "c" + strconv.Itoa(i)}
		c.Resources.Requests, c.Resources.Limits = randomList(r), randomList(r)
		for _, name := range []v1.ResourceName{admission.Resource("a"), admission.Resource("b")} {
			if r.IntN(4) == 0 {
				q := resource.MustParse(one(r, "0", "1", "2", "400", "1k", "500m", "1P"))
				c.Resources.Requests[name], c.Resources.Limits[name] = q, q
			}
		}
		if r.IntN(2) == 0 {
			pod.Annotations["resources.workload.openshift.io/"+c.Name] = one(r,
				`{"cpushares":2}`, `{"cpushares": 2}`, `{"cpushares":409}`, `{"cpushares":409,"cpulimit":9}`, `{"cpuset":"0"}`, "",
				`{"cpushares":409,"cpulimit":0}`, `{"cpushares":1024}`)
		}
		if r.IntN(4) == 0 {
			pod.Annotations["io.openshift.workload."+one(r, "a", "b")+".cpushares/"+c.Name] = one(r, "0", "2", "400", "x")
		}
		if r.IntN(3) == 0 {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	if r.IntN(8) == 0 {
		pod.Spec.Resources = &v1.ResourceRequirements{}
	}
	return pod
}

func randomList(r *rand.Rand) v1.ResourceList {
	list := v1.ResourceList{}
	if r.IntN(2) == 0 {
		list[v1.ResourceCPU] = resource.MustParse(one(r, "0", "1m", "400m", "400m", "1", "300", "3M", "1e18"))
	}
	if r.IntN(2) == 0 {
		list[v1.ResourceMemory] = resource.MustParse(one(r, "0", "1Mi", "1Mi"))
	}
	return list
}
