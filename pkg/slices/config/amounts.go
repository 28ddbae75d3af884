package config

import (
	"cmp"
	"slices"

	"node-partition.io/node-partition/internal/text"
)

// remark says what is wrong with an amount beside the limit, and whether the section is refused.
type remark struct {
	field, value, text string
	refused            bool
}

// resolve fills in the amounts in bytes, and judges them.
func (c *checker) resolve(p *Partition) {
	limit, s := p.Limit, p.Share
	p.Limit = 0
	if limit == 0 {
		return
	}
	found, elsewhere := judge(*p, limit), []remark(nil)
	//guard: a share of unknown memory gets no remark on its size
	known := s == nil || s.OfBytes > 0
	if known {
		p.Thresholds, p.MemoryHigh = p.At(limit), p.amounts.high.of(limit)
	} else {
		// The limit is the largest one that a share of memory that is not known may come to, or one of
		// any size. An amount that is a problem with it is one on each node: it grows with the limit, or
		// stays as it is. A warning holds on each node if it does with the least limit, too.
		elsewhere = judge(*p, min(cmp.Or(s.MinBytes, smallLimit), limit)) // with less than smallLimit no partition works
	}
	if memory := c.node.MemoryBytes; known && p.Burst > 0 && limit < memory && p.Max() >= memory {
		c.warn(burstField, "with memoryLimit it is %s, and the node has %s: without a monitor nothing limits the partition; want less",
			text.RoundBytes(int64(p.Max())), text.RoundBytes(int64(memory)))
	}
	for _, r := range elsewhere {
		result := ""
		if r.refused {
			result = ", the configuration is refused"
		}
		//guard: a threshold that only small nodes refuse is a warning without a size
		if s.MinBytes > 0 && !slices.Contains(found, r) {
			c.warn(r.field, "on nodes where %s is the limit%s: %s: %s", limitMinField, result, r.value, r.text)
		}
	}
	for _, r := range found {
		switch {
		case r.refused:
			c.bad(r.field, r.value, "%s", r.text)
		case known || slices.Contains(elsewhere, r):
			c.warn(r.field, "%s: %s", r.value, r.text)
		case s.MaxBytes > 0:
			c.warn(r.field, "on nodes where %s is the limit: %s: %s", limitMaxField, r.value, r.text)
		}
	}
}

// judge compares the amounts of a partition with a limit, and with each other.
func judge(p Partition, limit uint64) (found []remark) {
	const (
		signal = "[" + memoryAvailable + "]"
		always = "is not below memoryLimit, so that the partition would always evict; " + wantThreshold
	)
	t, a := p.At(limit), p.amounts
	add := func(refused bool, field string, a amount, text string) {
		found = append(found, remark{field, a.text, text, refused})
	}
	if a.hard.of(limit) >= limit {
		add(true, hardField+signal, a.hard, always)
	}
	if a.soft.of(limit) >= limit {
		add(true, softField+signal, a.soft, always)
	}
	fit := len(found) == 0
	if fit && t.Soft > 0 && t.Soft <= t.Hard {
		add(false, softField, a.soft, "is not above "+hardField+", which acts first and at once; want more")
	}
	// The kubelet does not check the sum: its eviction continues until no pod is left.
	if fit && a.reclaim.text != "" && t.MinimumReclaim >= limit-t.Nearest() {
		add(true, reclaimField+signal, a.reclaim, "with the threshold is not below memoryLimit, so that eviction would not end; "+wantReclaim)
	}
	switch high := a.high.of(limit); {
	case a.high.text == "":
	case high == 0 || high >= limit:
		add(true, highField, a.high, "is not above zero and below memoryLimit; "+wantHigh)
	// A task above memory.high sleeps for up to two seconds each time it charges memory
	// (mem_cgroup_handle_over_high, mm/memcontrol.c). That buys time for an eviction that is under
	// way. If none is, it lasts.
	case t.Nearest() > 0 && t.Nearest() < limit && high < limit-t.Nearest():
		add(false, highField, a.high, "the kernel slows the partition down before a pod is evicted; want more, so that it does not stay slow")
	}
	return found
}
