package kubeapi

import v1 "k8s.io/api/core/v1"

// The types of our node conditions.
const (
	Pressure v1.NodeConditionType = "SystemPartitionPressure"
	Ready    v1.NodeConditionType = "SystemPartitionReady"
)
