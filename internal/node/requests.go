package node

// The requests that the service answers, as patterns of http.ServeMux.
const (
	// MovePattern moves one pod. The response is sent when the pod is in its place.
	MovePattern = "POST /move/{namespace}/{name}"
	// ReadyPattern is answered when the partition is active and its pods are managed.
	ReadyPattern = "GET /ready"
	// ListeningPattern is answered at once: with 200, or with why metrics and health are not served.
	ListeningPattern = "GET /listening"
)

// ControlHost is the host that requests over the socket address.
const ControlHost = "partition-monitor"
