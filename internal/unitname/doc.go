// Package unitname names the slices and scopes of pods, as the kubelet's systemd cgroup driver and
// the container runtimes do, and the slices of partitions, which extend the kubelet's names
// (KEP-5894). It reads and writes nothing.
package unitname
