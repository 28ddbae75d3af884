package faults

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/kubeapi"
	"nodepartition/internal/unitname"
	"nodepartition/pkg/evict"
)

// The reasons of the condition.
const (
	reasonLow         = "MemoryBelowThreshold"
	reasonNoCandidate = "NoEvictionCandidate"
	reasonEnough      = "MemoryAvailable"
	reasonUnread      = "MemoryNotRead"
)

const (
	// look is the interval between two readings of the state, heartbeat the interval between two
	// writes without a change, and retry the pause after a failed write, as in node-problem-detector
	// (updatePeriod, resyncPeriod and heartbeatPeriod, pkg/exporters/k8sexporter/condition).
	look      = time.Second
	heartbeat = 5 * time.Minute
	retry     = 10 * time.Second
	// calm is the time without pressure before the condition is False again, as for the kubelet's
	// MemoryPressure (evictionPressureTransitionPeriod).
	calm = 5 * time.Minute
	// stale is the age of a poll of the memory from which the state is unknown.
	stale = time.Minute
)

// judge returns the condition that follows from the last poll of a partition's memory, and from the
// time of the last pressure before it. Its times are left out.
func judge(partition unitname.PartitionName, report evict.Report, pressed, now time.Time) v1.NodeCondition {
	name := "partition " + string(partition)
	c := v1.NodeCondition{Type: kubeapi.Pressure}
	switch {
	case report.NoCandidate:
		c.Status, c.Reason = v1.ConditionTrue, reasonNoCandidate
		c.Message = "the memory of " + name + " is low, and no pod of it can be evicted: the kernel kills at the limit"
	case isLow(report), !pressed.IsZero() && now.Sub(pressed) < calm:
		c.Status, c.Reason = v1.ConditionTrue, reasonLow
		c.Message = "less memory than the eviction threshold is available in " + name + ", or was in the last five minutes"
	case report.Time.IsZero(), now.Sub(report.Time) > stale:
		c.Status, c.Reason = v1.ConditionUnknown, reasonUnread
		c.Message = "the memory of " + name + " was not read for a minute"
	default:
		c.Status, c.Reason = v1.ConditionFalse, reasonEnough
		c.Message = name + " has more memory available than the eviction threshold"
	}
	return c
}

// isLow reports whether less than the threshold is available, whether eviction is on or off.
func isLow(report evict.Report) bool { return report.Crossed != "" || report.Available < report.Hard }

// Condition keeps a condition of the node up to date.
type Condition struct {
	api       API
	partition unitname.PartitionName
	log       *slog.Logger
	count     func(written bool)

	mu      sync.Mutex
	pressed time.Time
	// withdrawn counts the calls of Withdraw, and removed those that no Restore has followed. Whoever
	// holds writing sees what is to be so.
	withdrawn int
	removed   bool

	writing sync.Mutex // held during writes, so that none follows the removal
	said    Saying
}

// NewCondition returns a Condition about a partition that writes nothing before Run. count is
// called after each attempt to write.
func NewCondition(
	api API,
	partition unitname.PartitionName,
	log *slog.Logger,
	count func(written bool),
) *Condition {
	return &Condition{api: api, partition: partition, log: log, count: count}
}

// Pressed notes that the threshold is crossed now, perhaps for less than a second. It returns at
// once.
func (c *Condition) Pressed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pressed = time.Now()
}

// Run writes the condition until ctx ends. report returns the last poll of the partition's memory,
// or false. Run writes nothing while it returns false, because there is no such partition.
//
// Run leaves the last value in place, as node-problem-detector does: restarting the service does
// not change the condition, and its last heartbeat time shows that it is stale.
func (c *Condition) Run(ctx context.Context, report func() (evict.Report, bool)) error {
	var written v1.NodeCondition
	var tried time.Time
	failed := false
	read, withdrawn := time.Now(), 0
	for ; ctx.Err() == nil; sleep(ctx, look) {
		now := time.Now()
		last, is := report()
		if !is {
			written, tried, failed, read = v1.NodeCondition{}, time.Time{}, false, now
			continue
		}
		if last.Time.IsZero() && now.Sub(read) < stale {
			continue // the first poll is about to end, or one has failed: the slice is created again
		}
		if !last.Time.IsZero() {
			read = last.Time
		}
		c.mu.Lock()
		if c.withdrawn != withdrawn {
			written, tried, failed, withdrawn = v1.NodeCondition{}, time.Time{}, false, c.withdrawn
		}
		if isLow(last) || last.NoCandidate {
			c.pressed = now
		}
		next := judge(c.partition, last, c.pressed, now)
		c.mu.Unlock()
		next.LastTransitionTime = written.LastTransitionTime
		if next.Status != written.Status {
			next.LastTransitionTime = metav1.NewTime(now)
		}
		changed := next.Status != written.Status || next.Reason != written.Reason
		since := now.Sub(tried)
		if due := changed && !failed || failed && since >= retry || since >= heartbeat; !due {
			continue
		}
		next.LastHeartbeatTime = metav1.NewTime(now)
		tried = now
		err := c.write(ctx, next)
		if failed = err != nil; !failed {
			written = next
		}
	}
	return ctx.Err()
}

func (c *Condition) write(ctx context.Context, next v1.NodeCondition) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.isRemoved() {
		return nil
	}
	err := c.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		return client.SetNodeCondition(ctx, node, next)
	})
	if err != nil && ctx.Err() == nil {
		c.said.Once(err, func() {
			c.log.Warn("the condition of the node could not be written, trying again", "condition", kubeapi.Pressure, "error", err)
		})
	}
	c.count(err == nil) // after the line: who waits for the attempt finds its cause in the log
	return err
}

// removeTimeout bounds Remove.
const removeTimeout = 5 * time.Second

// Withdraw forbids writes until Restore, because the partition is switched off. It returns at once;
// Remove removes what was written.
func (c *Condition) Withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed = true
	c.withdrawn++
}

// Restore allows writes again after Withdraw, because the partition came back. It returns at once.
func (c *Condition) Restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed = false
}

func (c *Condition) isRemoved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removed
}

// Remove removes the condition after Withdraw, unless Restore has followed.
func (c *Condition) Remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.isRemoved() {
		return
	}
	err := c.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		return client.RemoveNodeCondition(ctx, node, kubeapi.Pressure)
	})
	if err != nil && !errors.Is(err, ErrNoClient) { // it was never written
		c.log.Warn("the condition of the node could not be removed; remove it with kubectl", "condition", kubeapi.Pressure, "error", err)
	}
}
