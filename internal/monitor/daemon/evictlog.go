package daemon

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"nodepartition/internal/bytesize"
	"nodepartition/internal/journallog"
	"nodepartition/internal/monitor/metrics"
	"nodepartition/internal/monitor/options"
	"nodepartition/internal/monitor/recorder"
	"nodepartition/pkg/evict"
)

// The MESSAGE_IDs of the messages that an operator searches the journal for, with journalctl
// MESSAGE_ID=ID. units/node-partition.catalog has the explanations that journalctl -x prints. The
// IDs never change.
const (
	idEvicting     = "89c4cdf13b994233ab91955cce1e6c7e"
	idEvicted      = "c7c85240183a487bb66a6be20209f91e"
	idFailed       = "ae4e691e039a44eda873a02e0be8941b"
	idNoCandidate  = "998cfafe9eb4487eb25a0de77a72d557"
	idKernelKilled = "bf9b0aaf91ec4c9c8836e9b66ea21141"
)

// evictionEvents counts evictions, writes them to the log, and records faults in the cluster.
type evictionEvents struct {
	evictionJournal
	metrics *metrics.Metrics
	// recorder is nil if no history is kept.
	recorder *recorder.Recorder
	cluster  *cluster
}

// Evicting implements evict.Events. It counts a dry run, because no other event follows.
func (v evictionEvents) Evicting(e evict.Eviction, reaction time.Duration) {
	if reaction > 0 {
		v.metrics.Signalled(reaction)
		v.recorder.Evicting(e.Namespace, e.Name)
	}
	v.evictionJournal.Evicting(e)
	v.cluster.pressed()
	if e.DryRun {
		v.metrics.Evicted(e)
	}
}

// Evicted implements evict.Events.
func (v evictionEvents) Evicted(e evict.Eviction, took time.Duration) {
	v.metrics.Evicted(e)
	v.evictionJournal.Evicted(e, took)
}

// Failed implements evict.Events. A poll that failed is only counted here: it has a warning in the
// log, once a minute.
func (v evictionEvents) Failed(e evict.Eviction, step evict.Step, err error) {
	v.metrics.Failed(step)
	if step != evict.StepPoll {
		v.evictionJournal.Failed(e, step, err)
	}
}

// NoCandidate implements evict.Events.
func (v evictionEvents) NoCandidate(d evict.Decision) {
	v.evictionJournal.NoCandidate(d)
	v.metrics.NoCandidate()
	v.cluster.noCandidate(d)
}

// KernelKilled implements evict.Events.
func (v evictionEvents) KernelKilled(limit evict.KilledAt, processes uint64) {
	v.metrics.KernelKilled(limit, processes)
	v.recorder.KernelKilled(limit, processes)
	v.evictionJournal.KernelKilled(limit, processes)
	v.cluster.kernelKilled(limit)
}

// evictionJournal writes evictions to the log.
type evictionJournal struct{ log *slog.Logger }

func (j evictionJournal) Evicting(e evict.Eviction) {
	what := "evicting a pod, because the memory of the system partition is low"
	switch {
	case e.DryRun:
		what = "dry run: would evict a pod, because the memory of the system partition is low"
	case e.Method == evict.Restart && e.EndsForGood:
		what = "killing a pod that is not started again (restartPolicy Never), because the memory of the system partition is low"
	case e.Method == evict.Restart:
		what = "stopping the containers of a pod, which the kubelet starts again, because the memory of the system partition is low"
	}
	j.of(e, idEvicting).
		Warn(what, "threshold", e.Threshold, "available", bytesize.Text(e.AvailableBytes), "below", bytesize.Text(e.AtBytes),
			"limit", bytesize.Text(e.LimitBytes), "working-set", bytesize.Text(e.WorkingSetBytes),
			"request", bytesize.Text(e.RequestBytes),
			"estimated", e.Estimated, "priority", e.Priority, "grace", e.Grace)
}

func (j evictionJournal) Evicted(e evict.Eviction, took time.Duration) {
	log := j.of(e, idEvicted)
	if e.Problem != "" {
		log.Warn(
			"an eviction has ended with a problem",
			"took", took.Round(time.Millisecond), "problem", e.Problem,
		)
		return
	}
	log.Info("an eviction has ended", "took", took.Round(time.Millisecond))
}

func (j evictionJournal) Resumed(e evict.Eviction) {
	j.of(e, idEvicting).
		Warn("resuming an eviction that an earlier run of this program left unfinished", "decided", e.Time.Format(time.RFC3339))
}

func (j evictionJournal) Failed(e evict.Eviction, step evict.Step, err error) {
	if e.UID == "" {
		j.log.Error("a step of the eviction loop failed", journallog.MessageID, idFailed, "step", step, "error", err)
		return
	}
	j.of(e, idFailed).Error("a step of an eviction failed", "step", step, "error", err)
}

func (j evictionJournal) NoCandidate(d evict.Decision) {
	pods := make([]string, 0, len(d.Order))
	for _, c := range d.Order {
		skip := string(c.Skip)
		if skip == "" {
			skip = "would free nothing"
		}
		pods = append(pods, c.Namespace+"/"+c.Name+" ("+skip+")")
	}
	j.log.Error(
		noCandidateText(d), journallog.MessageID, idNoCandidate, "available",
		bytesize.Text(d.Available), "below", bytesize.Text(d.At), "pods", strings.Join(pods, ", "),
	)
}

// noCandidateText returns why no pod is evicted, without figures.
func noCandidateText(d evict.Decision) string {
	switch {
	case d.Held == evict.HoldStays:
		return "the memory of the system partition is low because of memory that ending processes does not free, and no other pod is evicted for it: " +
			"delete the pod that holds it (memory-stays), or raise memoryLimit"
	case len(d.Order) == 0:
		return "the memory of the system partition is low and no pod in it is known: the kernel will kill at the limit"
	}
	if slices.ContainsFunc(d.Order, func(c evict.Candidate) bool { return c.Skip == evict.SkipWithinRequest }) {
		return "the memory of the system partition is low because a protected pod uses more than it requests, and no pod within its request " +
			"is evicted for it: the kernel will kill at the limit; limit that pod, or protect fewer with --" + options.FlagProtected
	}
	return "the memory of the system partition is low and all its pods are protected: the kernel will kill at the limit; raise memoryLimit, " +
		"or protect fewer with --" + options.FlagProtected
}

func (j evictionJournal) KernelKilled(limit evict.KilledAt, processes uint64) {
	what := "the kernel has killed processes in the system partition, at the limit of a pod, a container or the node"
	if limit == evict.AtPartition {
		what = "the kernel has killed processes in the system partition, at its limit: eviction came too late, or had no candidate"
	}
	j.log.Error(what+"; journalctl -k names them", journallog.MessageID, idKernelKilled, "processes", processes)
}

func (j evictionJournal) Warn(err error) { j.log.Warn("eviction", "error", err) }

func (j evictionJournal) of(e evict.Eviction, id string) *slog.Logger {
	return j.log.With(journallog.MessageID, id, "namespace", e.Namespace, "pod", e.Name, "uid", e.UID, "method", e.Method)
}
