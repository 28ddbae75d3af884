// Package control sends requests to the running service. Over a socket that only root may open, it
// requests the move of a pod, and waits until the service is ready. At the address of metrics and
// health, it queries readiness and reports. The service answers with internal/daemon/control.
package control

// The requests that the service answers, as patterns of http.ServeMux.
const (
	// MovePattern moves one pod. The response is sent when the pod is in its place.
	MovePattern = "POST /move/{namespace}/{name}"
	// ReadyPattern is answered when the partition is active and its pods are managed.
	ReadyPattern = "GET /ready"
)
