// Package apitest tests the controller with a real API server. The nodes are objects, and their
// kubelets a loop that ends the pods.
package apitest
