// Package nri is the plugin that the container runtime asks before it creates a container: it places
// members at their creation. It is the only package that imports containerd/nri.
package nri
