package workload

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// CPU holds the CPU time that a container of a member has in place of a request and a limit of CPU,
// in thousandths of a CPU. Zero means none.
type CPU struct {
	// Cores is the request of the type's extended resource. Its weight follows from that.
	Cores int64
	// Limit is the CPU limit that the API server's admission has moved into an annotation.
	Limit int64
}

// resourcesPrefix is the beginning of OpenShift's annotation for a container:
// resources.workload.openshift.io/CONTAINER with {"cpushares": 409, "cpulimit": 500}.
const resourcesPrefix = "resources.workload.openshift.io/"

// maxMilliCPU bounds a CPU limit; it is the kubelet's largest request (MaxShares,
// pkg/kubelet/cm/helpers_linux.go).
const maxMilliCPU = 256_000

// CPUOf returns the CPU time of a container of a pod that asks for a type. cpushares of the
// annotation are not read: the request says the same, and the API server and the kubelet have
// bounded it. A CPU limit is taken from the annotation, because it can only take from the container
// itself. A bad value is none, as is one out of range. cpuset is never read.
func CPUOf(annotations map[string]string, workload, container string, requests v1.ResourceList) CPU {
	cores := requests[v1.ResourceName(Resource(workload))]
	cpu := CPU{Cores: min(max(cores.Value(), 0), maxMilliCPU)}
	value := annotations[resourcesPrefix+container]
	var resources struct {
		Limit json.Number `json:"cpulimit"`
	}
	if len(value) > maxValue || strings.TrimSpace(value) == "" || json.Unmarshal([]byte(value), &resources) != nil {
		return cpu
	}
	if limit, err := resources.Limit.Int64(); err == nil && limit > 0 && limit <= maxMilliCPU {
		cpu.Limit = limit
	}
	return cpu
}
