// Package status reads the state of the partition from the node and the service, and writes it for
// people and for scripts. It changes nothing.
package status
