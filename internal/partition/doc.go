// Package partition holds what a partition is, as plain data: the names of its slices and scopes,
// as the kubelet's systemd cgroup driver and the container runtimes write them (KEP-5894); which
// pods are its members; the annotations by which a pod asks for a workload type, under the names of
// OpenShift; and the labels of a Node.
//
// It imports nothing of ours, reads and writes nothing, and has no clock: the generator, the
// daemon, the commands and the controller of rollout follow one rule because all of them ask it.
package partition
