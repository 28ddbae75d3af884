package faults

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/kubeapi"
	"nodepartition/pkg/evict"
)

// Pressure is the type of our node condition.
const Pressure v1.NodeConditionType = "SystemPartitionPressure"

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

// judge returns the condition that follows from the last poll of the memory, and from the time of
// the last pressure before it. Its times are left out.
func judge(report evict.Report, pressed, now time.Time) v1.NodeCondition {
	c := v1.NodeCondition{Type: Pressure}
	switch {
	case report.NoCandidate:
		c.Status, c.Reason = v1.ConditionTrue, reasonNoCandidate
		c.Message = "the memory of the system partition is low, and no pod of it can be evicted: the kernel kills at the limit"
	case isLow(report), !pressed.IsZero() && now.Sub(pressed) < calm:
		c.Status, c.Reason = v1.ConditionTrue, reasonLow
		c.Message = "less memory than the eviction threshold is available in the system partition, or was in the last five minutes"
	case report.Time.IsZero(), now.Sub(report.Time) > stale:
		c.Status, c.Reason = v1.ConditionUnknown, reasonUnread
		c.Message = "the memory of the system partition was not read for a minute"
	default:
		c.Status, c.Reason = v1.ConditionFalse, reasonEnough
		c.Message = "the system partition has more memory available than the eviction threshold"
	}
	return c
}

// isLow reports whether less than the threshold is available, whether eviction is on or off.
func isLow(report evict.Report) bool { return report.Crossed != "" || report.Available < report.Hard }

// Condition keeps a condition of the node up to date.
type Condition struct {
	api    API
	report func() evict.Report
	log    *slog.Logger
	count  func(written bool)

	mu      sync.Mutex
	pressed time.Time

	writing sync.Mutex // held during writes, so that none follows Remove
	removed bool
}

// NewCondition returns a Condition that writes nothing before Run. report returns the last poll of
// the memory. count is called after each attempt to write.
func NewCondition(api API, report func() evict.Report, log *slog.Logger, count func(written bool)) *Condition {
	return &Condition{api: api, report: report, log: log, count: count}
}

// Pressed notes that the threshold is crossed now, perhaps for less than a second. It returns at
// once.
func (c *Condition) Pressed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pressed = time.Now()
}

// Run writes the condition until ctx ends. It leaves the last value in place, as
// node-problem-detector does: a restart of the service is no transition, and the time of the last
// heartbeat shows that none follows.
func (c *Condition) Run(ctx context.Context) error {
	var said saying
	var written v1.NodeCondition
	var tried time.Time
	failed := false
	read := time.Now()
	for ; ctx.Err() == nil; sleep(ctx, look) {
		now, report := time.Now(), c.report()
		if report.Time.IsZero() && now.Sub(read) < stale {
			continue // the first poll is about to end, or one has failed: the slice is created again
		}
		if !report.Time.IsZero() {
			read = report.Time
		}
		c.mu.Lock()
		if isLow(report) || report.NoCandidate {
			c.pressed = now
		}
		next := judge(report, c.pressed, now)
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
			continue
		}
		if ctx.Err() == nil {
			said.once(err, func() {
				c.log.Warn("the condition of the node could not be written, trying again", "condition", Pressure, "error", err)
			})
		}
	}
	return ctx.Err()
}

func (c *Condition) write(ctx context.Context, next v1.NodeCondition) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.removed {
		return nil
	}
	err := c.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		return client.SetNodeCondition(ctx, node, next)
	})
	c.count(err == nil)
	return err
}

// removeTimeout bounds Remove.
const removeTimeout = 5 * time.Second

// Remove removes the condition, because the partition is switched off. No write follows it.
func (c *Condition) Remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	c.writing.Lock()
	defer c.writing.Unlock()
	c.removed = true
	err := c.api.Try(ctx, func(ctx context.Context, client *kubeapi.Client, node string) error {
		return client.RemoveNodeCondition(ctx, node, Pressure)
	})
	if err != nil {
		c.log.Warn("the condition of the node could not be removed; remove it with kubectl", "condition", Pressure, "error", err)
	}
}
