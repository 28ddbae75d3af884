package main

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/monitor/metrics"
	"nodepartition/pkg/evict"
	"nodepartition/pkg/podmove"
)

// What an operator can search the journal for is explained in the catalog.
func TestCatalog(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../units/node-partition.catalog")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{idEvicting, idEvicted, idFailed, idNobody, idKernelKilled}
	for _, id := range ids {
		if strings.Count(string(text), "\n-- "+id+"\n") != 1 {
			t.Errorf("%s is not explained, or twice", id)
		}
	}
	if entries := strings.Count(string(text), "\n-- "); entries != len(ids) {
		t.Errorf("%d entries, want %d", entries, len(ids))
	}
}

// TestEvictionEventsAreCountedAndLogged has each event once in the metrics and once in the log.
func TestEvictionEventsAreCountedAndLogged(t *testing.T) {
	t.Parallel()
	dry := anEviction()
	dry.DryRun = true
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		happen func(evict.Events)
		counts map[string]float64
		lines  int
	}{
		"evicting":      {func(v evict.Events) { v.Evicting(anEviction(), time.Millisecond) }, map[string]float64{"eviction_reaction_seconds": 1}, 1},
		"a restart too": {func(v evict.Events) { v.Evicting(anEviction(), 0) }, nil, 1},
		"dry run":       {func(v evict.Events) { v.Evicting(dry, 0) }, map[string]float64{"evictions_total": 1}, 1},
		"resumed":       {func(v evict.Events) { v.Resumed(anEviction()) }, nil, 1},
		"evicted":       {func(v evict.Events) { v.Evicted(anEviction(), time.Second) }, map[string]float64{"evictions_total": 1}, 1},
		"a step":        {func(v evict.Events) { v.Failed(anEviction(), evict.StepAPI, failed) }, map[string]float64{"eviction_failures_total": 1}, 1},
		"a look":        {func(v evict.Events) { v.Failed(evict.Eviction{}, evict.StepLook, failed) }, map[string]float64{"eviction_failures_total": 1}, 0},
		"nobody":        {func(v evict.Events) { v.Nobody(evict.Decision{}) }, map[string]float64{"eviction_nobody_total": 1}, 1},
		"killed":        {func(v evict.Events) { v.KernelKilled(evict.AtPod, 2) }, map[string]float64{"kernel_kills_total": 2}, 1},
		"warning":       {func(v evict.Events) { v.Warn(failed) }, nil, 1},
	} {
		counters, log := metrics.New(metrics.Options{Evictions: func() evict.Report { return evict.Report{} }, Reports: podmove.NewReconciler()}), &logged{}
		test.happen(evictionEvents{metrics: counters, evictionJournal: evictionJournal{slog.New(slog.NewTextHandler(log, nil))}})
		if got := strings.Count(log.String(), "\n"); got != test.lines {
			t.Errorf("%s: %d lines, want %d: %s", name, got, test.lines, log)
		}
		families, err := counters.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]float64{}
		for _, family := range families {
			short := strings.TrimPrefix(family.GetName(), "systempartition_")
			if !strings.HasPrefix(short, "eviction") && !strings.HasPrefix(short, "kernel_kills") {
				continue
			}
			for _, metric := range family.GetMetric() {
				if count := metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount()); count > 0 {
					counts[short] += count
				}
			}
		}
		if len(counts)+len(test.counts) > 0 && !maps.Equal(counts, test.counts) {
			t.Errorf("%s: counted %v, want %v", name, counts, test.counts)
		}
	}
}
