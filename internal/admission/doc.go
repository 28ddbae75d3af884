// Package admission converts a pod that asks for a workload type: the CPU that its containers
// request becomes a resource of the type, and annotations keep the CPU shares and the CPU limit of
// each container. It follows OpenShift's API server (admission of managementcpusoverride,
// openshift/kubernetes) and OpenShift's kubelet.
package admission
