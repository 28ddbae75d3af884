// Package cluster writes what happens on this node to the API server:
//
//   - evictions, to the status of their pods (evictions.go). They wait for nothing else: a Reporter
//     sends them from the goroutine of the evictor, over connections of their own.
//   - labels, the condition and the resources of the Node (keeper.go). The API server knows which
//     are ours, and removes what is not applied any more.
//   - Events about faults of partitions, on the node (events.go, series.go).
//
// Each of the last two has a goroutine of its own, pauses after failures by kubeapi.Retry, and
// sends with API.Try, which has the kubeconfig of now.
package cluster
