package partition

// This file holds the priorities of the two classes that every cluster has
// (pkg/apis/scheduling/types.go of Kubernetes, a package of k8s.io/kubernetes that no other program
// can import).

const (
	// ClusterCritical is the priority of system-cluster-critical (SystemCriticalPriority). No class
	// of a user has one as high.
	ClusterCritical = 2_000_000_000
	// NodeCritical is the priority of system-node-critical.
	NodeCritical = ClusterCritical + 1000
)
