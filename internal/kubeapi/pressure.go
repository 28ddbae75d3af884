package kubeapi

import v1 "k8s.io/api/core/v1"

// Pressure is the type of our node condition.
const Pressure v1.NodeConditionType = "SystemPartitionPressure"
