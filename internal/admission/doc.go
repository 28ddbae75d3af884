// Package admission converts a pod that asks for a workload type: the CPU that its containers
// request becomes a resource of the type, and annotations keep the CPU shares and the CPU limit of
// each container. It follows OpenShift's API server (admission of managementcpusoverride,
// openshift/kubernetes) and OpenShift's kubelet. It writes the same rules as policies for a stock
// API server, in CEL, and has the formulas between CPU requests, shares and cpu.weight.
//
// It decides from a pod and a namespace alone: no file, no API server.
package admission
