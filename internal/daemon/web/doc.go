// Package web is the HTTP server of partition-monitor: metrics, health, the state of the node, and
// a page for people, with the values and words of the command status. It changes nothing and asks
// for no password, so its address should be a loopback address.
//
// The state is what the daemon holds, and what files and cgroups say: no request leads to one to
// systemd, the runtime, the kubelet or the API server. However many ask, and whether they read or
// not, connections are few, and an answer is made once in a second.
package web
