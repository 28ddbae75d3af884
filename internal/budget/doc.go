// Package budget computes a node's budget: its capacity, the reservations and the eviction
// threshold of the kubelet, Node Allocatable, the system partition's share, and the remainder for
// user pods.
//
// The rules are the kubelet's own (seen in 1.37.0): the reservations in cmd/kubelet/app/server.go,
// the sums in pkg/kubelet/cm/node_container_manager_linux.go, the thresholds in
// pkg/kubelet/eviction/helpers.go, and Node Allocatable in pkg/kubelet/nodestatus/setters.go. The
// partition's share follows KEP-5894.
//
// Nothing here reads the node: a budget depends on its input alone.
package budget
