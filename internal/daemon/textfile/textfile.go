// Package textfile writes metrics to a file for the textfile collector of node_exporter, which
// serves them with its own: a node needs no second port.
package textfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// file is the name of the file. The collector reads files that end with ".prom".
const file = "node_partition.prom"

// interval is the time between two files. Most Prometheus servers scrape less often than each 15 s.
const interval = 15 * time.Second

// Writer writes the file again and again.
type Writer struct {
	// Folder is the one that node_exporter reads (--collector.textfile.directory).
	Folder   string
	Gatherer prometheus.Gatherer
	// Changed is called after each attempt, with nil or its error.
	Changed func(error)
	// Ended reports that there is no partition any more, so that the file is removed. A service that
	// is only restarted keeps it: the collector has the time of the file in
	// node_textfile_mtime_seconds.
	Ended func() bool
}

// Run writes the file until ctx ends.
func (w Writer) Run(ctx context.Context) error {
	path := filepath.Join(w.Folder, file)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		w.Changed(w.write(path))
		select {
		case <-ctx.Done():
			if w.Ended() {
				if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					w.Changed(err)
				}
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// write replaces the file by rename, so that no reader finds a part of it. The temporary file has
// another name each time. The error leaves it out: one that stays is the same, and is logged once.
func (w Writer) write(path string) error {
	err := prometheus.WriteToTextfile(path, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := w.Gatherer.Gather()
		if len(families) > 0 {
			err = nil // a partial scrape is better than an error, as on the port
		}
		return ours(families), err
	}))
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	} else if failed, ok := errors.AsType[*os.LinkError](err); ok {
		err = failed.Err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ours leaves out the metrics of the process. node_exporter has its own under the same names, and
// two of one name make its whole answer fail.
func ours(families []*dto.MetricFamily) []*dto.MetricFamily {
	kept := make([]*dto.MetricFamily, 0, len(families))
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
			kept = append(kept, family)
		}
	}
	return kept
}
