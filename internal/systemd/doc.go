// Package systemd asks systemd's manager over D-Bus to make, limit and stop units, and reports when
// units change.
//
// No other package uses D-Bus. A signal is a hint and never proof: any local user can send a signal
// to a connection, and signals are lost while there is no connection. Callers check the cgroup file
// system afterwards.
package systemd
