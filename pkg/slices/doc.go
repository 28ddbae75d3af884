// Package slices turns a valid configuration (pkg/slices/config) into systemd units: the slice of
// the partition, its QoS slices, slices that the kubelet expects for reserved resources, and
// drop-ins for the services of the kubelet and of the runtime.
//
// Load reads everything, NewPlan decides from that alone, and Output writes all or nothing. Nothing
// here has a clock, D-Bus or the network. No text of a configuration file reaches a unit: units are
// written from parsed numbers, CPU sets, fixed names and checked names of slices.
package slices
