// Package web is partition-monitor's HTTP server: metrics, health, the last report, and a page for people. It changes nothing
// and asks for no password, so it belongs on a loopback address.
package web

import (
	"encoding/json"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"nodepartition/internal/cgroupfs"
	"nodepartition/pkg/podmove"
)

// Options say what to serve. All fields are needed but those whose zero value has a meaning.
type Options struct {
	// Version of the program.
	Version string
	// Gatherer has the metrics.
	Gatherer prometheus.Gatherer
	// Reports has what the last pass found.
	Reports Reports
	// Sources tells of each source of events and answers whether it is connected.
	Sources func() map[string]bool
	// Alive returns what keeps the main loop from its work: one problem a line, or nil.
	Alive func() error
	// Ready returns what keeps pods from being where they belong, or on their way there.
	Ready func() error
	// Cgroups is where the partition is read; empty is cgroupfs.Mount.
	Cgroups cgroupfs.FS
	// Hosts are the names and addresses under which the server is asked, beside localhost and loopback addresses: the
	// host of the address that it listens on. One that is empty, 0.0.0.0 or :: stands for all addresses, but for no name.
	Hosts []string
	// ErrorLog hears of scrapes that lack something; nil is nobody.
	ErrorLog *log.Logger
}

// Reports has the report of the last pass; its Time is zero before the end of the first.
type Reports interface {
	Report() podmove.Report
}

// Handler serves GET and HEAD of /, /metrics, /healthz, /readyz and /report.
func Handler(o Options) http.Handler {
	if o.Cgroups == "" {
		o.Cgroups = cgroupfs.Mount
	}
	// What can be gathered is worth more than an error for all of it. A scrape reads all cgroups: four at a time are enough.
	scrape := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4}
	if o.ErrorLog != nil {
		scrape.ErrorLog = o.ErrorLog
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, scrape))
	mux.HandleFunc("GET /healthz", health(o.Alive))
	mux.HandleFunc("GET /readyz", health(o.Ready))
	mux.HandleFunc("GET /report", o.report)
	mux.HandleFunc("GET /{$}", o.page)
	return guard(newHosts(o.Hosts), mux)
}

func (o Options) report(w http.ResponseWriter, _ *http.Request) {
	report := o.Reports.Report()
	if report.Pods == nil {
		report.Pods = []podmove.PodReport{} // a list for all who read it
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(report) // fails when the client has gone
}
