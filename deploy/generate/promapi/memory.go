package promapi

import (
	"slices"
	"sort"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Memory holds the samples of some series. It is a storage for an engine.
type Memory struct {
	byText map[string]int
	labels []labels.Labels
	values [][]chunks.Sample
}

// Append adds a sample, which is later than the last of its series.
func (m *Memory) Append(series labels.Labels, at time.Time, value float64) {
	if m.byText == nil {
		m.byText = map[string]int{}
	}
	text := series.String()
	i, ok := m.byText[text]
	if !ok {
		i = len(m.labels)
		m.byText[text] = i
		m.labels, m.values = append(m.labels, series), append(m.values, nil)
	}
	m.values[i] = append(m.values[i], sample{at.UnixMilli(), value})
}

// Querier implements storage.Queryable. Samples beyond the bounds do not harm an engine.
func (m *Memory) Querier(from, to int64) (storage.Querier, error) {
	return &storage.MockQuerier{
		SelectMockFunction: func(_ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			if hints != nil && hints.End > 0 {
				return m.selected(hints.Start, hints.End, matchers)
			}
			return m.selected(from, to, matchers)
		},
	}, nil
}

// selected returns the series that match, in the order of their labels, with the samples of a time.
func (m *Memory) selected(from, to int64, matchers []*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{next: -1}
	for i, of := range m.labels {
		if slices.ContainsFunc(matchers, func(one *labels.Matcher) bool { return !one.Matches(of.Get(one.Name)) }) {
			continue
		}
		values := m.values[i]
		first := sort.Search(len(values), func(n int) bool { return values[n].T() >= from })
		last := sort.Search(len(values), func(n int) bool { return values[n].T() > to })
		if first < last {
			set.list = append(set.list, storage.NewListSeries(of, values[first:last]))
		}
	}
	slices.SortFunc(set.list, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return set
}

type seriesSet struct {
	list []storage.Series
	next int
}

func (s *seriesSet) Next() bool                        { s.next++; return s.next < len(s.list) }
func (s *seriesSet) At() storage.Series                { return s.list[s.next] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample is a number at a time in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
