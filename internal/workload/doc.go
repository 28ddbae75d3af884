// Package workload reads the annotations by which a pod asks for a workload type, under the names
// of OpenShift's enhancement "management workload partitioning", and under the names that OpenShift
// ships. It trusts none of them: internal/membership decides whether a pod has the right to what it
// asks for.
package workload
