package admissionpods

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"node-partition.io/node-partition/internal/admission"
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
		pod, types, in := RandomPod(r), RandomTypes(), RandomNamespaces()[r.IntN(8)]
		SetDefaults(pod)
		before, class := pod.DeepCopy(), ClassOf(pod)
		e := admission.Convert(types, in, pod)
		if !equality.Semantic.DeepEqual(before, pod) {
			t.Fatal("Convert has changed the pod")
		}
		e.Apply(pod)
		if got := ClassOf(pod); got != class {
			t.Errorf("class %s; want %s\n%s", got, class, show(before, pod))
		}
		if class == v1.PodQOSGuaranteed && len(e.Milli)+len(e.Drop) > 0 {
			t.Errorf("a guaranteed pod is converted\n%s", show(before, pod))
		}
		once := pod.DeepCopy()
		admission.Convert(types, in, pod).Apply(pod)
		if !equality.Semantic.DeepEqual(once, pod) {
			t.Errorf("a second pass changes the pod\n%s", show(once, pod))
		}
		if admission.Judge(types, in, pod) == nil {
			for _, why := range foreign(pod) {
				t.Errorf("%s\n%s", why, show(before, pod))
			}
		}
	})
}

// foreign returns what an admitted pod has that no conversion has written. A container
// runtime acts on its annotations.
func foreign(pod *v1.Pod) (found []string) {
	workload, containers := "", map[string]v1.ResourceRequirements{}
	each(pod, func(c *v1.Container) { containers[c.Name] = c.Resources })
	for key := range pod.Annotations {
		if name, ok := strings.CutPrefix(key, "target.workload.openshift.io/"); ok {
			workload = name
		}
	}
	cores := v1.ResourceName(workload + ".workload.openshift.io/cores")
	for key, value := range pod.Annotations {
		if name, ok := strings.CutPrefix(key, "resources.workload.openshift.io/"); ok {
			c, there := containers[name]
			request := c.Requests[cores]
			decoder := json.NewDecoder(strings.NewReader(value))
			decoder.DisallowUnknownFields()
			var says struct{ CPUShares, CPULimit int64 }
			if err := decoder.Decode(&says); err != nil || !there || says.CPUShares != min(max(request.Value()*1024/1000, 2), 262144) {
				found = append(found, key+"="+value)
			}
		} else if strings.HasPrefix(key, "io.openshift.workload.") {
			name, ok := strings.CutPrefix(key, "io.openshift.workload."+workload+".cpushares/")
			request := containers[name].Requests[cores]
			if _, there := containers[name]; !ok || !there || (value != strconv.FormatInt(request.Value(), 10) && value != "0") {
				found = append(found, key+"="+value)
			}
		}
	}
	each(pod, func(c *v1.Container) {
		for name := range c.Resources.Requests {
			_, annotated := pod.Annotations["resources.workload.openshift.io/"+c.Name]
			if strings.HasSuffix(string(name), "workload.openshift.io/cores") && (name != cores || !annotated) {
				found = append(found, "requests of "+c.Name+" have "+string(name))
			}
		}
	})
	return found
}

func show(before, pod *v1.Pod) string {
	return OutcomeOf(before, ClassOf(before)).String() + "becomes\n" + OutcomeOf(pod, ClassOf(pod)).String()
}
