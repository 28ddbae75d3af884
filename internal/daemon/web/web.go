package web

import (
	"encoding/json"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"node-partition.io/node-partition/internal/state"
)

// Options holds what is served. All fields are needed, except those whose zero value has a meaning.
type Options struct {
	// Version of the program, and Node, the name of the machine.
	Version, Node string
	// Gatherer has the metrics.
	Gatherer prometheus.Gatherer
	// State reads the state of the node.
	State func() state.Status
	// Alive returns the problems that stop the main loop, one a line, or nil.
	Alive func() error
	// Ready returns the problems that keep pods from being in the right partition or moved there.
	Ready func() error
	// Hosts holds the names and addresses by which clients may address the server, in addition to
	// localhost and loopback addresses: the host of the address that it listens on. An empty host,
	// 0.0.0.0 or :: allows all addresses, but no name.
	Hosts []string
	// ErrorLog logs incomplete scrapes; nil means that they are not logged.
	ErrorLog *log.Logger
}

// Handler serves GET and HEAD of /, /metrics, /healthz, /readyz and /report.
func Handler(o Options) http.Handler {
	scrape := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError} // better than no scrape
	if o.ErrorLog != nil {
		scrape.ErrorLog = o.ErrorLog
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", encoded(promhttp.HandlerFor(o.Gatherer, scrape)))
	mux.HandleFunc("GET /healthz", health(o.Alive))
	mux.HandleFunc("GET /readyz", health(o.Ready))
	mux.Handle("GET /report", keep(http.HandlerFunc(o.report), ""))
	refreshing := keep(Page{Node: o.Node, Version: o.Version, State: o.State}, "")
	still := keep(Page{Node: o.Node, Version: o.Version, State: o.State, Still: true}, "")
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("refresh") == "off" {
			still.ServeHTTP(w, r)
			return
		}
		refreshing.ServeHTTP(w, r)
	})
	return guard(newHosts(o.Hosts), mux)
}

func (o Options) report(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o.State()) // fails if the client is gone
}
