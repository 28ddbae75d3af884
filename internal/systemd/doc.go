// Package systemd asks systemd's manager to make, limit and stop units, over D-Bus, and hears from it when they change.
//
// It is the only package that knows D-Bus. What it hears is a hint and never the truth: any local user can send a signal
// to a connection, and signals are lost while there is no connection. Callers look at the cgroup file system afterwards.
package systemd
