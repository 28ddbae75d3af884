// Package host holds the places at which a node is read: its root directory, its cgroups and its
// processes. A program makes one Node, and passes it on to all that reads the node. Only
// internal/partition also has a literal of one, the mount of the cgroups. systemd's programs run
// here.
//
// It reads files below the root with bounds, and writes files as a whole: a reader gets the old
// content or the new one. The generator links it, so it has no D-Bus and no network.
package host
