// Package daemon implements partition-monitor.service: it places pods, updates limits and weights,
// evicts, and serves metrics and health, and at a socket for root the requests of an operator. It
// also is the plugin that a runtime starts by itself, before it serves its first request.
//
// It wires parts that others have, and starts and ends them. What it shares with the commands is in
// internal/node. It uses no command.
package daemon
