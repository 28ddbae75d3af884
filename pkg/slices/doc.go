// Package slices turns a valid configuration (pkg/slices/config) into systemd units: the slice of
// the partition, its QoS slices, and drop-ins for the services beside it.
//
// It works in two steps, as a generator should: Load reads everything, NewPlan decides, and Output
// writes everything. Nothing here talks to D-Bus or the network. No text of a configuration file
// reaches a unit: units are written from parsed numbers, CPU sets and fixed names.
package slices
