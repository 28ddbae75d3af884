// Package try applies a configuration for a limited time. After that systemd restores the previous
// one.
package try
