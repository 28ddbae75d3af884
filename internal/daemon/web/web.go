// Package web is the HTTP server of partition-monitor: metrics, health, the last report, and a page
// for people. It changes nothing and asks for no password, so its address should be a loopback
// address.
//
// The page shows what the daemon holds, and what cgroup files say of the pods: no request leads to
// one to systemd, the runtime, the kubelet or the API server. However many ask, and whether they
// read or not, connections are few, and an answer is made once in a second or two.
package web

import (
	"encoding/json"
	"log"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"nodepartition/internal/cgroupfs"
	"nodepartition/internal/node/control"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// Options holds the sources of the pages. All fields are needed, except those whose zero value has
// a meaning.
type Options struct {
	// Version of the program, and Node, the name of the machine.
	Version, Node string
	// Gatherer has the metrics.
	Gatherer prometheus.Gatherer
	// Reports returns the results of the last pass.
	Reports Reports
	// Partitions returns the partitions that the node has now, the system partition first.
	Partitions func() []Partition
	// Minutes returns what a partition has used in each minute of the last day, the newest last, 0 for
	// a minute that was not measured; and the end of the last.
	Minutes func(unitname.PartitionName) (used []uint64, to time.Time)
	// Sources returns for each source of events and answers whether it is connected.
	Sources func() map[string]bool
	// Alive returns the problems that stop the main loop, one a line, or nil.
	Alive func() error
	// Ready returns the problems that keep pods from being in the right partition or moved there.
	Ready func() error
	// Cgroups is the root of the cgroups.
	Cgroups cgroupfs.FS
	// Hosts holds the names and addresses by which clients may address the server, in addition to
	// localhost and loopback addresses: the host of the address that it listens on. An empty host,
	// 0.0.0.0 or :: allows all addresses, but no name.
	Hosts []string
	// ErrorLog logs incomplete scrapes; nil means that they are not logged.
	ErrorLog *log.Logger
}

// Partition is a partition of the node.
type Partition struct {
	Name    unitname.PartitionName
	Evictor Evictor
	// Happened returns the last events other than evictions, the newest last.
	Happened func() []Event
}

// Evictor keeps a partition below its limit. *evict.Manager is one.
type Evictor interface {
	// Report returns the result of the last poll; its Time is zero before the first.
	Report() evict.Report
	// Outlook ranks the pods of the partition.
	Outlook() (evict.Outlook, error)
}

// Event is something that has happened in a partition.
type Event struct {
	// Time of the last time, and Times the number of times.
	Time  time.Time
	Times int
	// Text describes it. Bad means that an operator should know.
	Text string
	Bad  bool
}

// Reports returns the report of the last pass; its Time is zero before the end of the first.
type Reports interface {
	Report() podmove.Report
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
	mux.Handle("GET /{$}", &page{Options: o})
	return guard(newHosts(o.Hosts), mux)
}

func (o Options) report(w http.ResponseWriter, _ *http.Request) {
	report := control.Report{Report: o.Reports.Report(), Partitions: []control.Memory{}}
	if report.Pods == nil {
		report.Pods = []podmove.PodReport{} // a list in JSON, not null
	}
	for _, p := range o.Partitions() {
		if poll := p.Evictor.Report(); !poll.Time.IsZero() {
			report.Partitions = append(report.Partitions, control.Memory{
				Name: p.Name, Time: poll.Time, UsedBytes: poll.Memory.Used(), UsedPeakBytes: poll.UsedPeak,
			})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(report) // fails if the client is gone
}
