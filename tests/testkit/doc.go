// Package testkit has what tests of several packages share: terminals, certificates, gRPC servers,
// programs that are built for a test, and what a test needs of this machine.
package testkit
