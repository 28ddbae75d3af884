// Package nodebus shows internal/systemd and pkg/podmove/livemove on real systemds: it builds the tests of the folder onnode
// and runs them on nodes of tests/lab, as root, without a kubelet's pods.
package nodebus
