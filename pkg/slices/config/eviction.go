package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"nodepartition/internal/thresholds"
)

// The fields of eviction. They follow the names and rules of the kubelet's fields for the node
// (ParseThresholdConfig, pkg/kubelet/eviction/helpers.go, 1.37.0).
const (
	hardField       = "evictionHard"
	softField       = "evictionSoft"
	softPeriodField = "evictionSoftGracePeriod"
	podPeriodField  = "evictionMaxPodGracePeriod"
	reclaimField    = "evictionMinimumReclaim"
)

// eviction reads the fields of eviction. It returns early without a memoryLimit and warns of the
// fields. It skips amounts if memoryLimit is invalid: there is nothing to compare them with, and
// memoryLimit has its own error.
func (c *checker) eviction(p *Partition) {
	if c.section[limitField] == nil {
		c.withoutLimit()
		return
	}
	p.Eviction = c.threshold(hardField, c.signal(hardField, "100Mi"), p.MemoryLimit)
	if p.Eviction == (Threshold{}) {
		p.Eviction.Least = c.node.statErrorBytes()
	}
	p.EvictionSoft = c.softThreshold(p)
	p.MaxPodGracePeriod = c.maxPodGracePeriod()
	p.MinimumReclaim = c.minimumReclaim(p)
	c.idle()
}

// signal returns the value of memory.available in a field that maps signals to values; nil if there
// is none.
func (c *checker) signal(field, example string) json.RawMessage {
	raw := c.section[field]
	if raw == nil {
		return nil
	}
	var signals map[string]json.RawMessage
	if err := json.Unmarshal(raw, &signals); err != nil {
		c.bad(field, shown(raw), "is not an object; want e.g. {%s: %s}", memoryAvailable, example)
		return nil
	}
	for _, signal := range slices.Sorted(maps.Keys(signals)) {
		if signal != memoryAvailable {
			c.bad(field, quote(signal), "is not a signal of the partition; want %s", memoryAvailable)
			return nil
		}
	}
	if value := signals[memoryAvailable]; !isNull(value) {
		return value
	}
	return nil
}

// badSignal reports a problem in the value of memory.available.
func (c *checker) badSignal(field string, value json.RawMessage, format string, args ...any) {
	c.bad(field+"["+memoryAvailable+"]", shown(value), format, args...)
}

func (c *checker) threshold(field string, value json.RawMessage, limit int64) Threshold {
	if value == nil || limit <= 0 {
		return Threshold{}
	}
	threshold, err := parseThreshold(value, limit)
	if err != nil {
		c.badSignal(field, value, "%v", err)
	}
	return threshold
}

func (c *checker) softThreshold(p *Partition) *SoftThreshold {
	value, period := c.signal(softField, "200Mi"), c.signal(softPeriodField, "1m30s")
	soft := SoftThreshold{Threshold: c.threshold(softField, value, p.MemoryLimit)}
	var err error
	if period != nil {
		if soft.GracePeriod, err = parseGracePeriod(period); err != nil {
			c.badSignal(softPeriodField, period, "%v", err)
		}
	}
	if value == nil || soft.Threshold == (Threshold{}) || soft.Never {
		return nil
	}
	if period == nil {
		c.bad(
			softPeriodField+"["+memoryAvailable+"]", "",
			"is missing; want how long %s has to be met, such as 1m30s", softField,
		)
	}
	bytes, _ := soft.Of(p.MemoryLimit)
	if hard, ok := p.Eviction.Of(p.MemoryLimit); ok && bytes <= hard {
		amounts := fmt.Sprintf("%d bytes are not above the %d of %s", bytes, hard, hardField)
		if c.nodes == anyLimit {
			amounts = "is not above " + hardField
		}
		c.warn(softField, "%s: %s, which acts first and at once; want more", shown(value), amounts)
	}
	return &soft
}

// withoutLimit warns of fields that do nothing without memoryLimit: without a limit no amount of
// memory is available.
func (c *checker) withoutLimit() {
	for _, field := range []string{hardField, softField, softPeriodField, podPeriodField, reclaimField, "memoryHigh"} {
		if c.section[field] != nil {
			c.warn(field, "does nothing without memoryLimit")
		}
	}
}

// idle warns of fields that do nothing without evictionSoft. The kubelet does not warn of them.
func (c *checker) idle() {
	for _, field := range []string{softPeriodField, podPeriodField} {
		if c.section[field] != nil && c.section[softField] == nil {
			c.warn(field, "does nothing without %s", softField)
		}
	}
}

// maxPodGracePeriod reads evictionMaxPodGracePeriod and refuses a negative number. The help of the
// kubelet's flag says that a negative number means the pod's own grace period. The kubelet's code
// takes the lesser of the two, which is none at all (managerImpl.synchronize,
// pkg/kubelet/eviction/eviction_manager.go).
//
// If the kubelet's field is missing, the kubelet uses 0 and still gives a pod two seconds after
// SIGTERM (minimumGracePeriodInSeconds, pkg/kubelet/kuberuntime). An operator who sets a soft
// threshold wants a clean end, so a missing field here means the pod's own grace period.
func (c *checker) maxPodGracePeriod() *time.Duration {
	raw := c.section[podPeriodField]
	if raw == nil {
		return nil
	}
	var seconds int32
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds < 0 {
		c.bad(podPeriodField, shown(raw), "is not a number of seconds; want 0, which is at once, to %d", math.MaxInt32)
	}
	period := time.Duration(seconds) * time.Second
	return &period
}

// minimumReclaim reads evictionMinimumReclaim. The sum of it and the threshold has to be below
// memoryLimit. The kubelet does not check that: its eviction continues until no pod is left.
func (c *checker) minimumReclaim(p *Partition) int64 {
	value := c.signal(reclaimField, "50Mi")
	if value == nil || p.MemoryLimit <= 0 {
		return 0
	}
	const want = "want a quantity such as 50Mi, or a percentage of memoryLimit, such as 2%"
	a, err := parseAmount(value, 0, want)
	if err != nil {
		c.badSignal(reclaimField, value, "%v", err)
		return 0
	}
	reclaim := a.of(p.MemoryLimit)
	if margin, _ := p.Margin(); reclaim >= p.MemoryLimit-margin {
		threshold := fmt.Sprintf("the threshold, %d bytes,", margin)
		if c.nodes == anyLimit {
			threshold = "the threshold"
		}
		c.badSignal(
			reclaimField, value, "with %s is not below memoryLimit, so that eviction would not end; %s", threshold, want,
		)
	}
	return reclaim
}

// Margin returns the available memory in bytes below which eviction begins. It returns false if no
// threshold is on.
func (p *Partition) Margin() (bytes int64, evicts bool) {
	bytes, evicts = p.Eviction.Of(p.MemoryLimit)
	if p.EvictionSoft != nil {
		soft, _ := p.EvictionSoft.Of(p.MemoryLimit)
		return thresholds.Nearest(bytes, soft), true
	}
	return bytes, evicts
}
