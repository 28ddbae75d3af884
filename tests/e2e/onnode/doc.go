// Package onnode is run on a node by TestOnNode in the folder above: as root, with systemd as PID
// 1. Its tests have the build tag "node".
package onnode
