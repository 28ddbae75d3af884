// Package cluster writes what happens on this node to the API server, and reads from it what the
// node has to know:
//
//   - evictions, to the status of their pods (evictions.go). They wait for nothing else: a Reporter
//     sends them from the goroutine of the evictor, over connections of their own.
//   - labels, conditions and resources of the Node (keeper.go). One state file says what to take
//     back.
//   - Events about faults of partitions, on pods and on the node (events.go, series.go, kills.go).
//   - which workload types a namespace allows (namespaces.go, known.go).
//
// Each of the last three has a goroutine of its own, and pauses after failures by kubeapi.Retry: a
// webhook that is slow for Events does not keep a new pod from its partition. All send with
// API.Try, which has the kubeconfig of now.
package cluster
