package admission

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// FuzzConvert makes a pod of each number, and checks what holds for all pods: the QoS class stays,
// a second conversion changes nothing, and no annotation of a container survives that a conversion
// has not written.
func FuzzConvert(f *testing.F) {
	for seed := range uint64(3000) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		pod, in := randomPod(r), randomNamespace(r)
		types := []Type{{Name: "a", Namespaces: []string{"listed"}, ByNamespace: true}, {Name: "b", ByNamespace: r.IntN(2) == 0}}
		setDefaults(pod)
		before, class := pod.DeepCopy(), classOf(containersOf(pod))
		e := Convert(types, in, pod)
		if !equality.Semantic.DeepEqual(before, pod) {
			t.Fatal("Convert has changed the pod")
		}
		e.Apply(pod)
		if got := classOf(containersOf(pod)); got != class {
			t.Errorf("class %s; want %s\n%s", got, class, show(before, pod))
		}
		if class == v1.PodQOSGuaranteed && len(e.Milli)+len(e.Drop) > 0 {
			t.Errorf("a guaranteed pod is converted\n%s", show(before, pod))
		}
		once := pod.DeepCopy()
		again := Convert(types, in, pod)
		again.Apply(pod)
		if !equality.Semantic.DeepEqual(once, pod) {
			t.Errorf("a second pass changes the pod\n%s", show(once, pod))
		}
		if Judge(types, in, pod) == nil {
			isAdmitted(t, before, pod, class)
		}
	})
}

// isAdmitted checks a pod that was admitted.
func isAdmitted(t *testing.T, before, pod *v1.Pod, class v1.PodQOSClass) {
	t.Helper()
	own := map[string]string{}
	for _, name := range targets(pod.Annotations) {
		for _, c := range containersOf(pod) {
			milli, ok := c.converted(name, pod.Annotations)
			if _, has := c.requests[v1.ResourceCPU]; has && class == v1.PodQOSBurstable {
				t.Errorf("%s has CPU beside the resource\n%s", c.name, show(before, pod))
			}
			if ok || class == v1.PodQOSBestEffort {
				own[resourcesKey(c.name)], own[documentKey(name, c.name)] = sharesOf(milli), strconv.FormatInt(milli, 10)
			}
		}
	}
	for key, value := range pod.Annotations {
		shares, ok := own[key]
		if !ofContainer(key) {
			continue
		}
		if found := annotation.FindStringSubmatch(value); !ok || (value != shares && (found == nil || found[1] != shares)) {
			t.Errorf("the annotation %s=%s survives\n%s", key, value, show(before, pod))
		}
	}
}

func show(before, pod *v1.Pod) string {
	text := ""
	for _, p := range []*v1.Pod{before, pod} {
		text += fmt.Sprintf("%v\n", p.Annotations)
		for _, c := range containersOf(p) {
			text += fmt.Sprintf("  %s requests %s limits %s\n", c.name, list(c.requests), list(c.limits))
		}
	}
	return text
}

func list(resources v1.ResourceList) string {
	text := ""
	for name, q := range resources {
		text += fmt.Sprintf("%s=%s ", name, q.String())
	}
	return text
}

func randomNamespace(r *rand.Rand) Namespace {
	return Namespace{
		Name: one(r, "listed", "plain"),
		Annotations: []map[string]string{
			nil, {"workload.openshift.io/allowed": "a,b"}, {"allowed.workload.openshift.io": " a"}, {"workload.openshift.io/allowed": "c"},
		}[r.IntN(4)],
	}
}

func one(r *rand.Rand, values ...string) string { return values[r.IntN(len(values))] }

// randomPod returns a pod with few containers and values, so that they meet.
func randomPod(r *rand.Rand) *v1.Pod {
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{"other": "x"}
	for range r.IntN(3) {
		pod.Annotations[targetPrefix+one(r, "a", "a", "a", "b", "c")] = one(r, asked, asked, asked, " "+asked, "{}", "")
	}
	for i := range 1 + r.IntN(3) {
		c := v1.Container{Name: "c" + strconv.Itoa(i)}
		c.Resources.Requests, c.Resources.Limits = randomList(r), randomList(r)
		for _, name := range []v1.ResourceName{Resource("a"), Resource("b")} {
			if r.IntN(4) == 0 {
				q := resource.MustParse(one(r, "0", "1", "2", "400", "1k", "500m", "1P"))
				c.Resources.Requests[name], c.Resources.Limits[name] = q, q
			}
		}
		if r.IntN(2) == 0 {
			pod.Annotations[resourcesKey(c.Name)] = one(r,
				`{"cpushares":2}`, `{"cpushares": 2}`, `{"cpushares":409}`, `{"cpushares":409,"cpulimit":9}`, `{"cpuset":"0"}`, "",
				`{"cpushares":409,"cpulimit":0}`, `{"cpushares":1024}`)
		}
		if r.IntN(4) == 0 {
			pod.Annotations[documentKey(one(r, "a", "b"), c.Name)] = one(r, "0", "2", "400", "x")
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
