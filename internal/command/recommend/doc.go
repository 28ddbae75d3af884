// Package recommend computes the memoryLimit of a partition from what it has used, and writes it as
// a section that "partition-monitor try" takes. It changes nothing.
package recommend
