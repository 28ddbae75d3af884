// Package cri reads from the running container runtime: pods and containers over the Container
// Runtime Interface, and the part of CRI-O's configuration that gives pods CPUs by an annotation.
//
// It identifies pods by the metadata that the kubelet gave them in its requests, and not by labels:
// no author of a pod can write the metadata.
package cri
