// Package cri talks to the running container runtime: it reads pods and containers, and stops
// containers, over the Container Runtime Interface.
//
// It identifies pods by the metadata that the kubelet gave them in its requests, and not by labels:
// no author of a pod can write the metadata.
package cri
