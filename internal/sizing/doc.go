// Package sizing computes how much memory a partition needs, from what it has used.
//
// docs/how-large.md has the derivation of the rule, and a judge: tests/sizebench.
package sizing
