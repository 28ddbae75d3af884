package admissionpods

import (
	"math/rand/v2"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/internal/admission"
)

// RandomTypes returns the types that random pods ask for, and one that they ask for is missing.
func RandomTypes() []admission.Type {
	return []admission.Type{
		{Name: "a", Namespaces: []string{"listed-0", "listed-1", "listed-2", "listed-3"}, ByNamespace: true},
		{Name: "b", ByNamespace: true},
		{Name: "d", Namespaces: []string{"unlisted-0", "unlisted-3"}, Unconverted: true},
	}
}

// RandomNamespaces returns the namespaces of random pods.
func RandomNamespaces() []*v1.Namespace {
	all := make([]*v1.Namespace, 0, 8)
	for _, name := range []string{"listed-", "unlisted-"} {
		for i, annotations := range []map[string]string{
			nil, {"workload.openshift.io/allowed": "a,b"}, {"allowed.workload.openshift.io": " a"},
			{"workload.openshift.io/allowed": "c"},
		} {
			of := metav1.ObjectMeta{Name: name + strconv.Itoa(i), Annotations: annotations}
			all = append(all, &v1.Namespace{ObjectMeta: of})
		}
	}
	return all
}

func one(r *rand.Rand, values ...string) string { return values[r.IntN(len(values))] }

// RandomPod returns a pod with few containers and values, so that they meet.
func RandomPod(r *rand.Rand) *v1.Pod {
	pod := &v1.Pod{}
	pod.GenerateName = "random-"
	pod.Annotations = map[string]string{"other": "x"}
	for range r.IntN(3) {
		key := "target.workload.openshift.io/" + one(r, "a", "a", "a", "a", "a", "b", "c", "d")
		pod.Annotations[key] = one(r, asked, asked, asked, " "+asked+"\n", "{}", "")
	}
	for i := range 1 + r.IntN(3) {
		c := v1.Container{Name: "c" + strconv.Itoa(i), Image: "none"}
		c.Resources.Requests, c.Resources.Limits = randomList(r), randomList(r)
		for _, name := range []v1.ResourceName{"a.workload.openshift.io/cores", "b.workload.openshift.io/cores"} {
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
