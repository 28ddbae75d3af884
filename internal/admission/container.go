package admission

import (
	"regexp"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/internal/text"
)

// container is a container or an init container, which may be a sidecar. An ephemeral container has
// no resources.
type container struct {
	name             string
	requests, limits v1.ResourceList
}

func containersOf(pod *v1.Pod) []container {
	var all []container
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, container{list[i].Name, list[i].Resources.Requests, list[i].Resources.Limits})
		}
	}
	return all
}

// request returns the request of a resource, and whether there is one. A limit without a request is
// a request, too: the API server writes it there, and a static manifest may come without.
func (c container) request(name v1.ResourceName) (resource.Quantity, bool) {
	if q, ok := c.requests[name]; ok {
		return q, true
	}
	q, ok := c.limits[name]
	return q, ok
}

// converted returns the request of a converted container, in thousandths of a CPU. A container has
// been converted if the annotation that OpenShift ships has the shares of its request. The resource
// alone does not count, because users can set it.
func (c container) converted(workload string, annotations map[string]string) (milli int64, ok bool) {
	q, ok := c.requests[resourceOf(workload)]
	if !ok {
		return 0, false
	}
	milli, ok = q.AsInt64()
	if !ok || milli < 0 || milli > text.MaxMilliCPU {
		return 0, false
	}
	found := annotation.FindStringSubmatch(annotations[resourcesKey(c.name)])
	//guard: a resource that a user has set is not a conversion
	return milli, found != nil && found[1] == sharesOf(milli)
}

// annotation matches the value of a container's annotation. OpenShift writes a space for a
// BestEffort pod.
var annotation = regexp.MustCompile(`^[{]"cpushares": ?([0-9]+)(?:,"cpulimit":([1-9][0-9]{0,9}))?[}]$`)

// annotationOf returns the annotation of a container. The limit is in thousandths of a CPU, 0 for
// none.
func annotationOf(milli, limit int64) string {
	value := `{"cpushares":` + sharesOf(milli)
	if limit > 0 {
		value += `,"cpulimit":` + strconv.FormatInt(limit, 10)
	}
	return value + "}"
}

func sharesOf(milli int64) string {
	return strconv.FormatUint(SharesOfMilliCPU(milli), 10)
}
