// Package plan reads what the budget of a node is computed from, and writes the budget for people
// and for scripts. It changes nothing.
package plan
