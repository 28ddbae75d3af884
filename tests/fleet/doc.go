// Package fleet measures a Prometheus with thousands of made-up nodes: how long its rules, the
// dashboard's row for many nodes and partition-monitor recommend take, and what it needs. It takes
// minutes and gigabytes: make bench-fleet runs it.
package fleet
