// Package cluster writes what happens on this node to the API server:
//
//   - evictions, to the status of their pods (evictions.go). They wait for nothing else: a Reporter
//     sends them from the goroutine of the evictor, over connections of their own.
//   - labels, the condition and the resources of the Node (keeper.go). One state file says what to
//     take back.
//   - Events about faults of partitions, on pods and on the node (events.go, series.go, kills.go).
//
// Each of the last two has a goroutine of its own, pauses after failures by kubeapi.Retry, and
// sends with API.Try, which has the kubeconfig of now.
package cluster
