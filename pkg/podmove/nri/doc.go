// Package nri is a plugin of the container runtime. The runtime calls it before it creates a
// container, and it places members at their creation. It is the only package that imports
// containerd/nri.
package nri
