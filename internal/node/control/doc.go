// Package control sends requests to the running service. Over a socket that only root may open, it
// requests the move of a pod, waits until the service is ready, and queries readiness and reports.
// Without the right to open the socket, it queries at the address of metrics and health. The
// service answers with internal/daemon/control.
package control

// The requests that the service answers, as patterns of http.ServeMux.
const (
	// MovePattern moves one pod. The response is sent when the pod is in its place.
	MovePattern = "POST /move/{namespace}/{name}"
	// ReadyPattern is answered when the partition is active and its pods are managed.
	ReadyPattern = "GET /ready"
	// ListeningPattern is answered at once: with 200, or with why metrics and health are not served.
	ListeningPattern = "GET /listening"
)

// Host is the host that requests over the socket address.
const Host = "partition-monitor"
