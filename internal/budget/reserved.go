package budget

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/text"
)

// reservations holds the resources that the kubelet keeps from pods.
type reservations struct {
	kube, system v1.ResourceList
}

// reserve returns the reservations of a kubelet. reservedSystemCPUs overrides the CPUs of both: the
// number of its CPUs is reserved for the system, and none for Kubernetes (run,
// cmd/kubelet/app/server.go).
func reserve(k *Kubelet, reservedCPUs cpuset.CPUSet) (reservations, error) {
	kube, system := maps.Clone(k.KubeReserved), maps.Clone(k.SystemReserved)
	if n := reservedCPUs.Size(); n > 0 {
		delete(kube, string(v1.ResourceCPU))
		if system == nil {
			system = map[string]string{}
		}
		system[string(v1.ResourceCPU)] = strconv.Itoa(n)
	}
	var r reservations
	var kubeErr, systemErr error
	r.kube, kubeErr = parseList("kubeReserved", kube)
	r.system, systemErr = parseList("systemReserved", system)
	return r, errors.Join(kubeErr, systemErr)
}

// pids is the resource of process IDs, which the API of nodes does not have
// (pkg/kubelet/stats/pidlimit).
const pids = "pid"

// The largest amounts that this package computes with. Thousandths of largest, and millionths of
// largestCPU, fit into 64 bits.
const (
	largest    = math.MaxInt64 / 1000
	largestCPU = largest / 1000
)

var errTooLarge = errors.New("is too large for this program")

// parseList parses a reservation as the kubelet does (parseResourceList,
// cmd/kubelet/app/server.go).
func parseList(field string, values map[string]string) (v1.ResourceList, error) {
	list := v1.ResourceList{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		q, err := parseReserved(name, values[name])
		if err != nil {
			problems = append(problems, refused(field, name, values[name], err))
			continue
		}
		list[v1.ResourceName(name)] = q
	}
	return list, errors.Join(problems...)
}

// refused returns the error of a value that the kubelet refuses.
func refused(field, key, value string, err error) error {
	return fmt.Errorf("%s[%s]: %q %w; the kubelet does not start with it", field, key, value, err)
}

func parseReserved(name, value string) (resource.Quantity, error) {
	switch v1.ResourceName(name) {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, pids:
	default:
		return resource.Quantity{}, errors.New(
			"cannot be reserved; want cpu, memory, ephemeral-storage or pid",
		)
	}
	q, err := text.ParseQuantity(value)
	switch {
	case err != nil:
		return q, err
	case q.Sign() < 0:
		return q, errors.New("is negative")
	case q.CmpInt64(largest) > 0 || v1.ResourceName(name) == v1.ResourceCPU && q.CmpInt64(largestCPU) > 0:
		return q, errTooLarge
	}
	if v1.ResourceName(name) == v1.ResourceCPU {
		q.SetMilli((q.ScaledValue(resource.Micro) + 500) / 1000)
	}
	return q, nil
}
