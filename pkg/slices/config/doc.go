// Package config reads the operator's settings for a node: the sections of partitions in the
// kubelet's configuration (systemPartition of KEP-5894, and workloadPartitions), the off switch on
// the kernel command line, the kubelet's feature gate and reserved cgroups, and the settings for
// services.
//
// It reads everything before it validates anything. It validates a section against the kubelet's
// own settings and against the node's memory, CPUs and cgroup controllers. Nothing here depends on
// how the partition is made: pkg/slices does that.
package config
