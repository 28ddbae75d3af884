// Package kubeapi tests internal/kubeapi against a real API server of tests/lab, with the rights of
// a kubelet, without a node. Building that server takes minutes, so the tests have the build tag
// "node".
package kubeapi
