// Package check compares the node with the requirements of the configuration and the programs. It
// returns findings: what is wrong, and what to change.
package check
