// Package render writes the files of OpenShift's workload partitioning for the workload types of a
// node, and converts the manifest of a static pod. It changes nothing on the node.
package render
