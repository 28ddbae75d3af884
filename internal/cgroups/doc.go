// Package cgroups reads the cgroup v2 file system below kubepods.slice. It writes nothing: cgroups
// with a systemd unit are changed through systemd, which would overwrite other changes.
package cgroups
