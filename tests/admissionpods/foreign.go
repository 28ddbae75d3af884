package admissionpods

import (
	"encoding/json"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Foreign returns what an admitted pod has that no conversion has written. A container
// runtime acts on its annotations.
func Foreign(pod *v1.Pod) (found []string) {
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
			shares := min(max(request.Value()*1024/1000, 2), 262144)
			if err := decoder.Decode(&says); err != nil || !there || says.CPUShares != shares {
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
