// Package recommend computes a memoryLimit and an eviction threshold for the partition, and figures
// for kubeReserved and systemReserved, from a history. It is arithmetic alone: it reads no file and
// no clock. docs/history.md explains each step.
package recommend
