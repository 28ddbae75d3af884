// Package metrics has the Prometheus metrics of partition-monitor: its own work, counted as it
// happens, and the usage of the partitions' cgroups, read at each scrape. It writes the same to a
// file for the textfile collector of node_exporter.
//
// Each collector has a file of its own. Only the daemon uses the package: a command has no metrics.
package metrics
