// Package e2e tests the project on real nodes: virtual machines with systemd as PID 1, a stock
// runtime and a stock kubelet, made by tests/lab. Its tests have the build tag "node". Each runs on
// the flavours that differ in what it tests, and with LAB_EVERYTHING=1 on every flavour that has
// it.
package e2e
