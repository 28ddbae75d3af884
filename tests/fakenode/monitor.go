package fakenode

import (
	"io"
	"net/http"
	"time"

	"node-partition.io/node-partition/internal/kubelet"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/pkg/evict"
	"node-partition.io/node-partition/pkg/podmove"
	"node-partition.io/node-partition/pkg/podmove/nri"
)

// Options returns the options of the command line without flags.
func (n *Node) Options() node.Options {
	h := n.Host()
	return node.Options{
		Node: h, NRI: h.Path(nri.DefaultSocket), PodsAPI: h.Path(kubelet.PodsSocket), Mode: podmove.Auto,
		Events: true,
		Eviction: node.EvictionFlags{
			Kubeconfig: node.KubeconfigAuto,
			Settings:   evict.Settings{Protected: evict.DefaultProtected, Cooldown: 5 * time.Minute},
		},
	}
}

// MonitorAnswers serves /readyz at the socket of the monitor as a running one does, whose metrics
// are served.
func (n *Node) MonitorAnswers(status int, text string) {
	n.t.Helper()
	n.MonitorServes(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text) // fails if the client has disconnected
		}
	})
}

// MonitorServes serves at the socket of the monitor until the function that it returns is called.
func (n *Node) MonitorServes(answer http.HandlerFunc) (end func()) {
	n.t.Helper()
	socket := n.Listen(node.ControlSocket)
	server := &http.Server{Handler: answer}
	go func() { _ = server.Serve(socket) }() // it ends with Close
	end = func() { _ = server.Close() }
	n.t.Cleanup(end)
	return end
}
