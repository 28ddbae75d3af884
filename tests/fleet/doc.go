// Package fleet measures a Prometheus with thousands of made-up nodes: how long its rules take, the
// dashboard when somebody opens it, and partition-monitor recommend, and what it needs. It takes
// minutes and gigabytes: make bench-fleet runs it. A small test of recommend asks Prometheus' own
// engine what few nodes recommend.
package fleet
