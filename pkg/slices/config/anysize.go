package config

import (
	"cmp"
	"errors"
	"slices"
)

// amountsOfAny reads the amounts of a partition whose limit is a share of memory that is not known.
// It judges them at the least and at the largest limit that the share may come to. What holds at
// both holds on each node, and is found as it is. What holds at a bound alone is a warning: nodes
// of some sizes are refused, or warned of.
//
// An amount that is a problem at the largest limit is one at the others: it grows with the limit,
// or stays as it is.
func (c *checker) amountsOfAny(p *Partition) {
	most, minimum, maximum := p.MemoryLimit, p.Share.MinBytes, p.Share.MaxBytes
	least := min(cmp.Or(minimum, smallLimit), most) // with less than smallLimit no partition works
	atLeast, _ := c.at(p, least, anyLimit)
	atMost, read := c.at(p, most, anyLimit)
	c.problems = append(c.problems, atMost.problems...)
	for _, warning := range atMost.warnings {
		if slices.Contains(atLeast.warnings, warning) {
			c.warnings = append(c.warnings, warning)
		}
	}
	//guard: a threshold that only small nodes refuse is a warning without a size
	if minimum > 0 {
		c.atBoundAlone(p, limitMinField, least, atLeast, atMost)
	}
	if maximum == most {
		c.atBoundAlone(p, limitMaxField, most, atMost, atLeast)
	}
	*p = read
	p.MemoryLimit = 0
}

// anyLimit means that a limit stands for each one that a share may come to: messages have no
// amounts of it.
const anyLimit = "any"

// at returns a checker that has read the amounts of a partition at a limit, and the partition with
// them. nodes says which nodes have that limit.
func (c *checker) at(p *Partition, limit int64, nodes string) (*checker, Partition) {
	sub := checker{config: c.config, node: c.node, name: c.name, section: c.section, nodes: nodes}
	q := *p
	q.MemoryLimit = limit
	sub.amounts(&q)
	return &sub, q
}

// atBoundAlone warns of what holds where a bound is the limit, and not at the other end.
func (c *checker) atBoundAlone(p *Partition, bound string, limit int64, here, there *checker) {
	exact, _ := c.at(p, limit, "on nodes where "+bound+" is the limit") // the same, in the same order
	for i, warning := range here.warnings {
		if !slices.Contains(there.warnings, warning) {
			c.warnings = append(c.warnings, exact.warnings[i])
		}
	}
	for i, problem := range here.problems {
		if slices.ContainsFunc(there.problems, func(err error) bool { return err.Error() == problem.Error() }) {
			continue
		}
		if refused := new(Problem); errors.As(exact.problems[i], &refused) {
			refused.Value = exact.nodes + ", the configuration is refused: " + refused.Value
			c.warnings = append(c.warnings, refused.Error())
		}
	}
}
