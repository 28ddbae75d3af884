package config

import (
	"cmp"
	"slices"
)

// remark says what is wrong with an amount beside the limit.
type remark struct{ field, value, text string }

// resolve fills in the amounts in bytes, and judges them.
func (c *checker) resolve(p *Partition) {
	limit, s := p.Limit, p.Share
	p.Limit = 0
	if limit == 0 {
		return
	}
	refused, warned := judge(*p, limit)
	//guard: a share of unknown memory gets no remark on its size
	if s == nil || s.OfBytes > 0 {
		p.Thresholds, p.MemoryHigh = p.At(limit), p.amounts.high.of(limit)
		c.report(refused, warned)
		return
	}
	// The limit is the largest one that a share of memory that is not known may come to, or one of any
	// size. An amount that is a problem with it is one on each node: it grows with the limit, or stays
	// as it is. A warning holds on each node if it does with the least limit, too.
	least := min(cmp.Or(s.MinBytes, smallLimit), limit) // with less than smallLimit no partition works
	refusedLeast, warnedLeast := judge(*p, least)
	only := func(bound string, bytes uint64, here, elsewhere []remark, result string) {
		for _, r := range here {
			//guard: a threshold that only small nodes refuse is a warning without a size
			if bytes > 0 && !slices.Contains(elsewhere, r) {
				c.warn(r.field, "on nodes where %s is the limit%s: %s: %s", bound, result, r.value, r.text)
			}
		}
	}
	only(limitMinField, s.MinBytes, refusedLeast, refused, ", the configuration is refused")
	only(limitMinField, s.MinBytes, warnedLeast, warned, "")
	only(limitMaxField, s.MaxBytes, warned, warnedLeast, "")
	c.report(refused, slices.DeleteFunc(warned, func(r remark) bool { return !slices.Contains(warnedLeast, r) }))
}

func (c *checker) report(refused, warned []remark) {
	for _, r := range refused {
		c.bad(r.field, r.value, "%s", r.text)
	}
	for _, r := range warned {
		c.warn(r.field, "%s: %s", r.value, r.text)
	}
}

// judge compares the amounts of a partition with a limit, and with each other.
func judge(p Partition, limit uint64) (refused, warned []remark) {
	t, a := p.At(limit), p.amounts
	high := a.high.of(limit)
	for _, of := range []struct {
		field  string
		amount amount
	}{{hardField, a.hard}, {softField, a.soft}} {
		if of.amount.of(limit) >= limit {
			refused = append(refused, remark{
				of.field + "[" + memoryAvailable + "]", of.amount.text,
				"is not below memoryLimit, so that the partition would always evict; " + wantThreshold,
			})
		}
	}
	if len(refused) == 0 && t.Soft > 0 && t.Soft <= t.Hard {
		warned = append(warned, remark{softField, a.soft.text, "is not above " + hardField + ", which acts first and at once; want more"})
	}
	// The kubelet does not check the sum: its eviction continues until no pod is left.
	if len(refused) == 0 && a.reclaim.text != "" && t.MinimumReclaim >= limit-t.Nearest() {
		refused = append(refused, remark{
			reclaimField + "[" + memoryAvailable + "]", a.reclaim.text,
			"with the threshold is not below memoryLimit, so that eviction would not end; " + wantReclaim,
		})
	}
	switch {
	case a.high.text == "":
	case high == 0 || high >= limit:
		refused = append(refused, remark{highField, a.high.text, "is not above zero and below memoryLimit; " + wantHigh})
	// A task above memory.high sleeps for up to two seconds each time it charges memory
	// (mem_cgroup_handle_over_high, mm/memcontrol.c). That buys time for an eviction that is under
	// way. If none is, it lasts.
	case t.Nearest() > 0 && t.Nearest() < limit && high < limit-t.Nearest():
		warned = append(warned, remark{
			highField, a.high.text,
			"the kernel slows the partition down before a pod is evicted; want more, so that it does not stay slow",
		})
	}
	return refused, warned
}
