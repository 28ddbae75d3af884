package daemon

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"node-partition.io/node-partition/internal/journallog"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
	"node-partition.io/node-partition/pkg/evict"
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

// evictionMetrics are the metrics of the evictions of a partition.
type evictionMetrics interface {
	Signalled(took time.Duration)
	Evicted(e evict.Eviction)
	Failed(step evict.Step)
	NoCandidate()
	KernelKilled(limit evict.KilledAt, processes uint64)
}

// evictionEvents counts the evictions of a partition, logs them, and then records what concerns the
// cluster.
type evictionEvents struct {
	evictionJournal
	metrics evictionMetrics
	cluster clusterEvents
}

// Evicting implements evict.Events. It counts a dry run, because no other event follows.
func (v evictionEvents) Evicting(e evict.Eviction, reaction time.Duration) {
	if reaction > 0 {
		v.metrics.Signalled(reaction)
	}
	if e.DryRun {
		v.metrics.Evicted(e)
	}
	v.evictionJournal.Evicting(e)
}

// Evicted implements evict.Events.
func (v evictionEvents) Evicted(e evict.Eviction, took time.Duration) {
	v.metrics.Evicted(e)
	v.evictionJournal.Evicted(e, took)
}

// Failed implements evict.Events.
func (v evictionEvents) Failed(e evict.Eviction, step evict.Step, err error) {
	v.metrics.Failed(step)
	v.evictionJournal.Failed(e, step, err)
}

// NoCandidate implements evict.Events.
func (v evictionEvents) NoCandidate(d evict.Decision) {
	v.metrics.NoCandidate()
	v.evictionJournal.NoCandidate(d)
	v.cluster.NoCandidate(d)
}

// KernelKilled implements evict.Events.
func (v evictionEvents) KernelKilled(limit evict.KilledAt, processes uint64) {
	v.metrics.KernelKilled(limit, processes)
	v.evictionJournal.KernelKilled(limit, processes)
	v.cluster.KernelKilled(limit)
}

// evictionJournal writes the evictions of a partition to the log.
type evictionJournal struct {
	log       *slog.Logger
	partition partition.Name
}

// newEvictionJournal returns a journal. Lines about the system partition have no attribute for it:
// they have been searched for since there was only one.
func newEvictionJournal(log *slog.Logger, partition partition.Name) evictionJournal {
	if !isFirst(partition) {
		log = log.With("partition", partition)
	}
	return evictionJournal{log: log, partition: partition}
}

// isFirst reports whether a partition is the system partition, whose texts do not name it.
func isFirst(name partition.Name) bool { return name == partition.First }

// textAbout returns a text about the system partition as the same text about another one.
func textAbout(partition partition.Name, text string) string {
	if isFirst(partition) {
		return text
	}
	return strings.ReplaceAll(text, "the system partition", "partition "+string(partition))
}

// Evicting logs that an eviction begins.
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
		Warn(textAbout(j.partition, what), "threshold", e.Threshold,
			"available", text.Bytes(e.AvailableBytes), "below", text.Bytes(e.AtBytes),
			"limit", text.Bytes(e.LimitBytes), "used", text.Bytes(e.UsedBytes), "working-set", text.Bytes(e.WorkingSetBytes),
			"request", text.Bytes(e.RequestBytes),
			"estimated", e.Estimated, "priority", e.Priority, "grace", e.Grace)
}

// Evicted logs how an eviction has ended.
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

// Resumed implements evict.Events.
func (j evictionJournal) Resumed(e evict.Eviction) {
	j.of(e, idEvicting).
		Warn("resuming an eviction that an earlier run of this program left unfinished", "decided", e.Time.Format(time.RFC3339))
}

// Failed logs a failure. It leaves out a failed poll, for which Warn is called once a
// minute.
func (j evictionJournal) Failed(e evict.Eviction, step evict.Step, err error) {
	if step == evict.StepPoll {
		return
	}
	if e.UID == "" {
		j.log.Error("a step of the eviction loop failed", journallog.MessageID, idFailed, "step", step, "error", err)
		return
	}
	j.of(e, idFailed).Error("a step of an eviction failed", "step", step, "error", err)
}

// NoCandidate logs why each pod is passed over.
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
		textAbout(j.partition, noCandidateText(d)), journallog.MessageID, idNoCandidate, "available",
		text.Bytes(d.Available), "below", text.Bytes(d.At), "of-no-pod", text.Bytes(d.Ownerless),
		"pods", strings.Join(pods, ", "),
	)
}

// noCandidateText returns why no pod of the system partition is evicted, without figures.
func noCandidateText(d evict.Decision) string {
	switch {
	case d.Held == evict.HoldUnreclaimable && evict.LeftBehind(d.Ownerless, len(d.Order)) > d.At/2:
		return "the memory of the system partition is low because of memory that belongs to no pod that runs in it, and no pod within its request is " +
			"evicted for it: delete the files that ended pods have left on a tmpfs of the node (/dev/shm, /run), or the pods that were moved out"
	case d.Held == evict.HoldUnreclaimable:
		return "the memory of the system partition is low because of memory that ending processes does not free, and no other pod is evicted for it: " +
			"delete the pod that holds it (memory-stays), or raise memoryLimit"
	case len(d.Order) == 0:
		return "the memory of the system partition is low and no pod in it is known: the kernel will kill at the limit"
	}
	if slices.ContainsFunc(d.Order, func(c evict.Candidate) bool { return c.Skip == evict.SkipWithinRequest }) {
		return "the memory of the system partition is low because a protected pod uses more than it requests, and no pod within its request " +
			"is evicted for it: the kernel will kill at the limit; limit that pod, or protect fewer with --" + node.FlagProtected
	}
	return "the memory of the system partition is low and all its pods are protected: the kernel will kill at the limit; raise memoryLimit, " +
		"or protect fewer with --" + node.FlagProtected
}

// KernelKilled logs at which limit the kernel has killed.
func (j evictionJournal) KernelKilled(limit evict.KilledAt, processes uint64) {
	what := "the kernel has killed processes in the system partition, at the limit of a pod, a container or the node"
	if limit == evict.AtPartition {
		what = "the kernel has killed processes in the system partition, at its limit: eviction came too late, or had no candidate"
	}
	j.log.Error(
		textAbout(j.partition, what)+"; journalctl -k names them",
		journallog.MessageID, idKernelKilled, "processes", processes,
	)
}

// Warn implements evict.Events.
func (j evictionJournal) Warn(err error) { j.log.Warn("eviction", "error", err) }

func (j evictionJournal) of(e evict.Eviction, id string) *slog.Logger {
	return j.log.With(journallog.MessageID, id, "namespace", e.Namespace, "pod", e.Name, "uid", e.UID, "method", e.Method)
}
