// Package cgroups reads the cgroup v2 file system of a node. It writes nothing: cgroups
// with a systemd unit are changed through systemd, which would overwrite other changes.
package cgroups
