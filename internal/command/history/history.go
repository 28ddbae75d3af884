// Package history shows what the monitor has recorded, for people and for scripts. It changes
// nothing, and works without the service.
package history

import (
	"context"
	"slices"
	"time"

	"nodepartition/internal/node"
	"nodepartition/internal/samples"
	"nodepartition/internal/unitname"
)

// Options holds the flags of the command history.
type Options struct {
	// Dir is the folder of the history.
	Dir string
	// Partition is the partition to show; "" means the system partition.
	Partition unitname.PartitionName
	// Since and Until bound the samples.
	Since, Until time.Time
	// At is a moment to show in detail, zero for none. Since and Until are then ignored.
	At time.Time
}

// View holds the output of the command history. Its JSON is for scripts: new versions add fields
// and do not change them.
type View struct {
	// Partition is the partition that was asked for. It is absent if none was: then Samples are about
	// the system partition.
	Partition unitname.PartitionName `json:"partition,omitempty"`

	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Samples have the length of a minute, of ten, or of an hour.
	Samples []samples.Sample `json:"samples"`
	// Partitions lists the partitions whose pods are known at the sample closest to At.
	Partitions []Partition `json:"partitions,omitempty"`
	// BrokenLines counts lines that could not be read.
	BrokenLines int `json:"brokenLines,omitempty"`

	// others lists the partitions of a history that has no system partition.
	others []unitname.PartitionName
}

// Partition lists the pods of a partition.
type Partition struct {
	Name    unitname.PartitionName `json:"name"`
	Slice   string                 `json:"slice"`
	Members []samples.Member       `json:"members"`
	// MembersTime is the end of the minute that Members are from.
	MembersTime time.Time `json:"membersTime"`
}

const (
	// around is shown before and after a moment.
	around = 5 * time.Minute
	// allMinutes and allTens are the longest times that are shown by the minute, and in ten minutes.
	allMinutes = 2 * time.Hour
	allTens    = 24 * time.Hour
)

// Read reads the samples to show.
func Read(ctx context.Context, o Options) (View, error) {
	h, err := node.ReadHistory(ctx, o.Dir, o.Partition)
	if err != nil {
		return View{}, err
	}
	v := View{Partition: o.Partition, Since: o.Since, Until: o.Until, BrokenLines: h.Broken}
	if !slices.Contains(h.Partitions, node.Shown(o.Partition)) {
		v.others = h.Partitions
	}
	if !o.At.IsZero() {
		v.Since, v.Until = o.At.Add(-around), o.At.Add(around)
		v.Partitions = membersAt(h, node.Shown(o.Partition), o.At)
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

// membersAt returns the pods of the partition that a history is about, close to a moment.
func membersAt(h samples.History, name unitname.PartitionName, at time.Time) []Partition {
	members, read := h.MembersAt(at)
	if members == nil {
		return nil
	}
	return []Partition{{Name: name, Slice: name.Slice(), Members: members, MembersTime: read}}
}
