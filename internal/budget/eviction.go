package budget

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"node-partition.io/node-partition/internal/text"
)

// The signals of evictionHard that reduce Node Allocatable (hardEvictionReservation,
// pkg/kubelet/cm/helpers.go).
const (
	signalMemory = "memory.available"
	signalNodeFS = "nodefs.available"
)

var reducing = map[string]v1.ResourceName{
	signalMemory: v1.ResourceMemory,
	signalNodeFS: v1.ResourceEphemeralStorage,
}

// evictionThreshold returns the resources below which the kubelet evicts at once.
func evictionThreshold(evictionHard map[string]string, capacity v1.ResourceList) (v1.ResourceList, error) {
	list := v1.ResourceList{}
	var problems []error
	for _, signal := range slices.Sorted(maps.Keys(evictionHard)) {
		value, name := evictionHard[signal], reducing[signal]
		total, counted := capacity[name]
		q, err := parseThreshold(value, total)
		switch {
		case err != nil:
			problems = append(problems, refused("evictionHard", signal, value, err))
		case counted:
			list[name] = q
		}
	}
	return list, errors.Join(problems...)
}

// parseThreshold returns the amount of a threshold. A percentage is one of the capacity, computed
// with the precision of a float32, as the kubelet does (parsePercentage, GetThresholdQuantity): 10%
// of 100Gi is 10Gi and 160 bytes. 0% and 100% switch the threshold off (parseThresholdStatement).
func parseThreshold(value string, capacity resource.Quantity) (resource.Quantity, error) {
	if strings.HasSuffix(value, "%") {
		if value == "0%" || value == "100%" {
			return resource.Quantity{}, nil
		}
		percent, err := strconv.ParseFloat(strings.TrimRight(value, "%"), 32)
		if err != nil {
			return resource.Quantity{}, errors.New("is not a percentage")
		}
		fraction := float32(percent) / 100
		if fraction >= 0 && fraction <= 1 { // false for NaN
			bytes := int64(float64(capacity.Value()) * float64(fraction))
			return *resource.NewQuantity(bytes, resource.BinarySI), nil
		}
		return resource.Quantity{}, errors.New("is not between 0% and 100%")
	}
	q, err := text.ParseQuantity(value)
	switch {
	case err != nil:
		return q, err
	case q.Sign() <= 0:
		return q, errors.New("is not above zero")
	case q.CmpInt64(largest) > 0:
		return q, errTooLarge
	}
	return q, nil
}
