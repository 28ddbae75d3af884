// Package history shows what the monitor has recorded, for people and for scripts. It changes
// nothing, and works without the service.
package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nodepartition/internal/monitor/recorder"
	"nodepartition/internal/samples"
)

// Options holds the flags of the command history.
type Options struct {
	// Dir is the folder of the history.
	Dir string
	// Since and Until bound the samples.
	Since, Until time.Time
	// At is a moment to show in detail, zero for none. Since and Until are then ignored.
	At time.Time
}

// View holds the output of the command history. Its JSON is for scripts: new versions add fields
// and do not change them.
type View struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Samples have the length of a minute, of ten, or of an hour.
	Samples []samples.Sample `json:"samples"`
	// Members lists the pods of the partition at the sample closest to At.
	Members []samples.Member `json:"members,omitempty"`
	// MembersTime is the end of the minute that Members are from.
	MembersTime time.Time `json:"membersTime,omitzero"`
	// BrokenLines counts lines that could not be read.
	BrokenLines int `json:"brokenLines,omitempty"`
}

const (
	// around is shown before and after a moment.
	around = 5 * time.Minute
	// allMinutes and allTens are the longest times that are shown by the minute, and in ten minutes.
	allMinutes = 2 * time.Hour
	allTens    = 24 * time.Hour
)

// Load reads a history. An error says how to get one.
func Load(ctx context.Context, dir string) (samples.History, error) {
	h, err := samples.Read(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h, fmt.Errorf("no history in %s: for one, mkdir -m 0700 %s, write --history into PARTITION_MONITOR_ARGS (/etc/default/node-partition), "+
			"and systemctl restart partition-monitor", dir, filepath.Dir(recorder.Dir))
	case errors.Is(err, os.ErrPermission):
		return h, fmt.Errorf("%w; it has to run as root", err)
	}
	return h, err
}

// Read reads the samples to show.
func Read(ctx context.Context, o Options) (View, error) {
	h, err := Load(ctx, o.Dir)
	if err != nil {
		return View{}, err
	}
	v := View{Since: o.Since, Until: o.Until, BrokenLines: h.Broken}
	if !o.At.IsZero() {
		v.Since, v.Until = o.At.Add(-around), o.At.Add(around)
		v.membersAt(h, o.At)
	}
	v.Samples = []samples.Sample{}
	switch length := v.Until.Sub(v.Since); {
	case length <= allMinutes:
		v.Samples = append(v.Samples, h.Between(v.Since, v.Until)...)
		if len(v.Samples) == 0 && !o.At.IsZero() {
			v.Samples = append(v.Samples, closest(h, o.At)...)
		}
	case length <= allTens:
		v.Samples = append(v.Samples, samples.Fold(h.Between(v.Since, v.Until), 10*time.Minute)...)
	default:
		v.Samples = append(v.Samples, samples.Fold(h.Between(v.Since, v.Until), time.Hour)...)
	}
	for i := range v.Samples {
		v.Samples[i].Members = nil
	}
	return v, nil
}

// closest returns the sample of ten minutes that a moment belongs to.
func closest(h samples.History, at time.Time) []samples.Sample {
	for _, s := range h.Tens {
		if !s.Time.Before(at) && s.Time.Add(-10*time.Minute).Before(at) {
			return []samples.Sample{s}
		}
	}
	return nil
}

// membersAt finds the pods closest to a moment, at most a quarter of an hour away.
func (v *View) membersAt(h samples.History, at time.Time) {
	const most = 15 * time.Minute
	for i := range h.Tens {
		s := &h.Tens[i]
		if s.Partition == nil || len(s.Members) == 0 {
			continue
		}
		away := s.Partition.PeakTime.Sub(at).Abs()
		if away <= most && (v.MembersTime.IsZero() || away < v.MembersTime.Sub(at).Abs()) {
			v.Members, v.MembersTime = s.Members, s.Partition.PeakTime
		}
	}
}
