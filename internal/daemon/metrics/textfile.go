package metrics

import (
	"bytes"
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
	"github.com/prometheus/common/expfmt"
)

// This file writes metrics to a file for the textfile collector of node_exporter, which
// serves them with its own: a node needs no second port.

// file is the name of the file. The collector reads files that end with ".prom".
const file = "node_partition.prom"

// interval is the time between two files. Most Prometheus servers scrape less often than each 15 s.
const interval = 15 * time.Second

// Textfile writes the file again and again.
type Textfile struct {
	// Folder is the one that node_exporter reads (--collector.textfile.directory).
	Folder   string
	Gatherer prometheus.Gatherer
	// Changed is called after each attempt, with nil or its error.
	Changed func(error)
}

// ClaimTextfile notes in a record that the file of a folder is written from now on; of none if that
// is empty. It removes the file that an earlier run has written elsewhere. The record has to
// outlive this program, and not the boot.
func ClaimTextfile(record, folder string) error {
	before, err := os.ReadFile(record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(before) > 0 && string(before) != folder {
		err = RemoveTextfile(string(before))
	} else {
		err = nil
	}
	return errors.Join(err, os.WriteFile(record, []byte(folder), 0o600))
}

// RemoveTextfile removes the file of a folder, because there is no partition any more. A service
// that is only restarted keeps it: the collector has the time of the file in
// node_textfile_mtime_seconds.
func RemoveTextfile(folder string) error {
	if err := os.Remove(filepath.Join(folder, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Run writes the file until ctx ends.
func (w Textfile) Run(ctx context.Context) error {
	path := filepath.Join(w.Folder, file)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		w.Changed(w.write(path))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// write replaces the file by rename, so that no reader finds a part of it. If a part of the metrics
// is missing, it writes the others, as on the port, and returns the reason.
func (w Textfile) write(path string) error {
	families, missing := w.Gatherer.Gather()
	if len(families) == 0 && missing != nil {
		return fmt.Errorf("%s: %w", path, missing)
	}
	var text bytes.Buffer
	for _, family := range ours(families) {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	temporary := filepath.Join(filepath.Dir(path), "."+file+".new")
	err := create(temporary, text.Bytes())
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // where there is one
		return err
	}
	if missing != nil {
		return fmt.Errorf("%s: a part is missing: %w", path, missing)
	}
	return nil
}

// create makes a file that others may read. The folder may be another user's: nothing that stands
// there under the name is written to or followed, and the mode is set on what was made.
func create(path string, text []byte) error {
	//guard: what stands in the folder of node_exporter under the name of a new file is replaced
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(0o644), f.Close())
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
