package samples

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"nodepartition/internal/unitname"
)

// History holds the samples of a folder, the oldest first.
type History struct {
	// Minutes and Tens overlap: each minute is also a part of a sample of ten minutes, once these are
	// complete.
	Minutes, Tens []Sample
	// Broken counts lines that could not be read.
	Broken int
	// Partitions lists the partitions of which Read has found a usage, the system partition first.
	Partitions []unitname.PartitionName
}

// Read reads the samples in a folder until ctx ends. A Ring may write at the same time: samples
// that it has not written yet are missing. An error that is fs.ErrNotExist means that there is no
// history.
func Read(ctx context.Context, dir string) (History, error) {
	var h History
	for _, series := range []struct {
		kind
		to *[]Sample
	}{{minutes, &h.Minutes}, {tens, &h.Tens}} {
		list, err := series.numbers(dir)
		if err != nil {
			return h, fmt.Errorf("history: %w", err)
		}
		for _, n := range list {
			if err := ctx.Err(); err != nil {
				return h, err
			}
			segment, err := h.read(filepath.Join(dir, series.file(n)))
			if err != nil {
				return h, err
			}
			*series.to = append(*series.to, segment...)
		}
	}
	h.complete()
	return h, nil
}

// ReadMinutes reads the samples of minutes that end after a moment, as Read does, and possibly
// earlier ones. It reads the newest files alone, of six hours each.
func ReadMinutes(ctx context.Context, dir string, after time.Time) (History, error) {
	var h History
	list, err := minutes.numbers(dir)
	if err != nil {
		return h, fmt.Errorf("history: %w", err)
	}
	for _, n := range slices.Backward(list) {
		if err := ctx.Err(); err != nil {
			return h, err
		}
		segment, err := h.read(filepath.Join(dir, minutes.file(n)))
		if err != nil {
			return h, err
		}
		h.Minutes = append(segment, h.Minutes...)
		if len(segment) > 0 && !segment[0].Time.After(after) {
			break
		}
	}
	h.complete()
	return h, nil
}

// read returns the samples of a segment, and counts its broken lines.
func (h *History) read(path string) ([]Sample, error) {
	var list []Sample
	in, err := scan(path, 0, func(text []byte) {
		var s Sample
		if json.Unmarshal(text, &s) != nil {
			h.Broken++ // of another version
			return
		}
		list = append(list, s)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed since it was listed
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	h.Broken += in.broken
	return list, nil
}

// complete puts the samples that were read in order.
func (h *History) complete() {
	h.Partitions = partitions(h.Minutes, h.Tens)
	h.retime()
	for _, list := range [][]Sample{h.Minutes, h.Tens} {
		slices.SortStableFunc(list, func(a, b Sample) int { return a.Time.Compare(b.Time) })
	}
}

// partitions lists the partitions of samples, the system partition first.
func partitions(lists ...[]Sample) []unitname.PartitionName {
	names := map[unitname.PartitionName]bool{}
	system := false
	for _, s := range slices.Concat(lists...) {
		system = system || s.Partition != nil
		for i := range s.Others {
			names[s.Others[i].Name] = true
		}
	}
	all := slices.Sorted(maps.Keys(names))
	if system {
		all = slices.Insert(all, 0, unitname.First)
	}
	return all
}

// Of returns the history about one partition, as Read returns it, without the others. A sample of
// the time in which the node did not have it has no partition.
func (h History) Of(name unitname.PartitionName) History {
	h.Minutes, h.Tens = about(h.Minutes, name), about(h.Tens, name)
	return h
}

func about(list []Sample, name unitname.PartitionName) []Sample {
	out := slices.Clone(list)
	for i := range out {
		s := &out[i]
		others := s.Others
		s.Others = nil
		if name == unitname.First {
			continue
		}
		s.About, s.Partition, s.Members = name, nil, nil
		for j := range others {
			if o := &others[j]; o.Name == name {
				s.Partition, s.Members = &o.Usage, o.Members
			}
		}
	}
	return out
}

// Between returns the samples that end after since and not after until: samples of a minute where
// they are kept, and else of ten minutes.
func (h History) Between(since, until time.Time) []Sample {
	finer := map[int64]bool{} // windows of which there are minutes
	for _, s := range h.Minutes {
		finer[window(s.Time).Unix()] = true
	}
	list := slices.DeleteFunc(slices.Clone(h.Tens), func(s Sample) bool { return finer[window(s.Time).Unix()] })
	list = slices.DeleteFunc(append(list, h.Minutes...), func(s Sample) bool {
		return !s.Time.After(since) || s.Time.After(until)
	})
	slices.SortStableFunc(list, func(a, b Sample) int { return a.Time.Compare(b.Time) })
	return list
}

// MembersAt returns the pods of the partition that a history is about, closest to a moment and at
// most a quarter of an hour away, and the end of the minute that they are from.
func (h History) MembersAt(at time.Time) (members []Member, read time.Time) {
	const most = 15 * time.Minute
	for i := range h.Tens {
		s := &h.Tens[i]
		if s.Partition == nil || len(s.Members) == 0 {
			continue
		}
		away := s.Partition.PeakTime.Sub(at).Abs()
		if away <= most && (members == nil || away < read.Sub(at).Abs()) {
			members, read = s.Members, s.Partition.PeakTime
		}
	}
	return members, read
}

// Fold returns samples of at least a duration, which divides a day: the maxima of those that belong
// together. A restart of the node begins another one.
func Fold(list []Sample, d time.Duration) []Sample {
	var out []Sample
	for _, s := range list {
		last := len(out) - 1
		if last >= 0 && out[last].Boot == s.Boot && out[last].Time.Truncate(d).Equal(s.Time.Truncate(d)) {
			out[last] = merge(out[last], s)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Coarse returns all samples as samples of ten minutes, each minute once. The last one may be
// shorter.
func (h History) Coarse() []Sample {
	covered := map[int64]time.Time{} // the end of the samples of ten minutes, by window
	for _, s := range h.Tens {
		covered[window(s.Time).Unix()] = s.Time
	}
	until := lastUptimes(h.Tens)
	list := slices.Clone(h.Tens)
	rest := slices.DeleteFunc(slices.Clone(h.Minutes), func(s Sample) bool {
		if last := until[s.Boot]; s.Up > 0 && last > 0 {
			return s.Up <= last // the series are written in the same order, whatever the clock says
		}
		end, ok := covered[window(s.Time).Unix()]
		return ok && !s.Time.After(end)
	})
	list = append(list, Fold(rest, coarse)...)
	slices.SortStableFunc(list, func(a, b Sample) int { return a.Time.Compare(b.Time) })
	return list
}
