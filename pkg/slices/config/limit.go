package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// The fields of the limit of a partition. The bounds are for a limit that is a share.
const (
	limitField    = "memoryLimit"
	limitMinField = "memoryLimitMin"
	limitMaxField = "memoryLimitMax"
	burstField    = "memoryBurst"
)

// shareUnit is the unit of a share in bytes: it is rounded down to a multiple.
const shareUnit = 1 << 20

// anySize stands for the memory of a node that is not known, where only the form of a share counts.
// It is above each number of bytes that a section can sensibly have, and leaves room for sums.
const anySize = 1 << 60

// Share is a memoryLimit that is a percentage of the node's memory.
type Share struct {
	// Text is the percentage as it is written, such as 12%.
	Text string
	// OfBytes is the memory that it is a share of, in bytes: see BootMemory. It is 0 if the size of
	// the node is not known.
	OfBytes uint64
	// MinBytes and MaxBytes are memoryLimitMin and memoryLimitMax; 0 for none.
	MinBytes, MaxBytes uint64
	// Bound is the field of the two that counts in place of the percentage; empty if neither does.
	Bound string
}

// String says what the limit comes to, such as "12% of 8388608000 bytes, by memoryLimitMin".
func (s *Share) String() string {
	text := fmt.Sprintf("%s of %d bytes", s.Text, s.OfBytes)
	if s.Bound != "" {
		text += ", by " + s.Bound
	}
	return text
}

// PercentageBytes returns the memory that the shares of the configuration are of, in bytes; 0 if it
// has none.
func (c *Config) PercentageBytes() uint64 {
	for i := range c.Partitions {
		if s := c.Partitions[i].Share; s != nil {
			return s.OfBytes
		}
	}
	return 0
}

// memoryLimit reads the limit, and the share that it is computed from; nil if it is a quantity.
func (c *checker) memoryLimit() (uint64, *Share) {
	raw := c.section[limitField]
	if number, ok := percentage(raw); ok {
		return c.share(raw, number)
	}
	c.boundsAlone()
	if raw == nil {
		return 0, nil
	}
	limit := c.limitBytes(limitField)
	if memory := c.node.MemoryBytes; memory > 0 && limit >= memory {
		c.notBelow(limitField, memory)
	}
	return limit, nil
}

// limitBytes reads a field with a limit in bytes, or a bound of one; 0 without one, and for one
// with a problem. A limit in which no process starts, or a small number without a unit, is a
// mistake: applied, it would end each member.
func (c *checker) limitBytes(field string) uint64 {
	raw := c.section[field]
	if raw == nil {
		return 0
	}
	limit, err := parseBytes(raw, 1)
	switch remark := LacksUnit(strings.Trim(string(raw), `"`), limit); {
	case err != nil:
		c.bad(field, shown(raw), "%v", err)
		return 0
	case remark != "":
		c.bad(field, shown(raw), "%s", remark)
		return 0
	case limit < smallLimit:
		c.warn(field, "%s is less than %d MiB, %s will hardly start in it; is a larger unit such as Gi meant?",
			shown(raw), smallLimit>>20, c.pods())
	}
	return limit
}

// memoryBurst reads how much the node may lend. What was lent comes back by evictions below the
// hard threshold. Above memoryHigh the kernel would slow down who uses it.
func (c *checker) memoryBurst(hard amount) amount {
	raw := c.section[burstField]
	if raw == nil {
		return amount{}
	}
	burst, err := parseAmount(raw, 1, wantBurst)
	switch {
	case err != nil:
		c.bad(burstField, shown(raw), "%v", err)
	case burst.percent == 0 && burst.bytes < leastLimit:
		c.bad(burstField, shown(raw), "is %d bytes; want a unit, and 1 MiB or more", burst.bytes)
	case c.section[limitField] == nil:
		c.bad(burstField, shown(raw), "needs %s, beyond which memory is lent; want both or neither", limitField)
	case c.section[highField] != nil:
		c.bad(burstField, shown(raw), "goes without %s, above which the kernel slows the partition down; remove one", highField)
	case hard.text != "" && hard.bytes == 0 && hard.percent == 0:
		c.bad(burstField, shown(raw), "needs %s, by which the node gets the memory back; want a threshold, or no burst", hardField)
	}
	return burst
}

// LacksUnit returns why a number of bytes of memory, with the text that it is written as, can only
// be a mistake: its unit is missing or too small. It is empty if the number can be meant.
func LacksUnit(text string, bytes uint64) string {
	number := strings.TrimRight(text, "KMGTPEik")
	if bytes >= smallLimit || bytes >= leastLimit && number != text {
		return ""
	}
	return fmt.Sprintf("is %d bytes; want a unit, and 1 MiB or more; is %s meant?", bytes, likely(number))
}

// likely returns a number with the unit by which it comes to a limit that people set: 4 is 4Gi, 512
// is 512Mi, and 4194304 is 4194304Ki.
func likely(number string) string {
	switch amount, err := strconv.ParseFloat(number, 64); {
	case err == nil && amount < 64:
		return number + "Gi"
	case err == nil && amount < 64<<10:
		return number + "Mi"
	}
	return number + "Ki"
}

// notBelow reports a field by which the partition may have all of the memory.
func (c *checker) notBelow(field string, memory uint64) {
	c.bad(
		field, shown(c.section[field]),
		"is not below the node's memory of %s; want less, so that something is left for the other pods", text.RoundBytes(int64(memory)),
	)
}

// percentage returns the text before the % of a percentage. It reports false for any other value.
func percentage(raw json.RawMessage) (number string, ok bool) {
	var text string
	_ = json.Unmarshal(raw, &text) // a quantity may be a number
	return strings.CutSuffix(text, "%")
}

// parsePercent parses a percentage above 0 and below 100, in the form of the kubelet's thresholds
// of eviction (parsePercentage, pkg/kubelet/eviction/helpers.go). It takes decimal notation alone:
// the kubelet takes each form of ParseFloat, such as 0x1p3, and "NaN" and "Inf", too. bits is the
// size of the result.
func parsePercent(number string, bits int, want string) (float64, error) {
	percent, err := strconv.ParseFloat(number, bits)
	if err != nil || strings.Trim(number, "+-.0123456789") != "" {
		return 0, errors.New("is not a percentage; " + want)
	}
	if percent <= 0 || percent >= 100 {
		return 0, errors.New("is not between 0% and 100%; " + want)
	}
	return percent, nil
}

// shareOf returns a percentage of memory in whole mebibytes, rounded down. It first rounds to whole
// bytes: 12 % of 3200 MiB are 384 MiB, whatever the error of the fraction is.
func shareOf(memory uint64, percent float64) uint64 {
	//guard: a share is exact whatever its fraction is in binary
	return uint64(math.Round(float64(memory)*percent/100)) / shareUnit * shareUnit
}

// Percentage returns the least percentage of the memory, in steps of a hundredth, that comes to
// bytes or more. It reports false if there is none below 100 %.
func (s *Share) Percentage(bytes uint64) (text string, ok bool) {
	const steps = 100 // in a percent
	if s.OfBytes == 0 {
		return "", false
	}
	step := math.Floor(float64(bytes) * 100 * steps / float64(s.OfBytes))
	for ; step < 100*steps; step++ {
		if percent := step / steps; shareOf(s.OfBytes, percent) >= bytes {
			return strconv.FormatFloat(percent, 'f', -1, 64) + "%", true
		}
	}
	return "", false
}

// share reads a limit that is a percentage, and its bounds. It returns 0 for a limit with a
// problem.
func (c *checker) share(raw json.RawMessage, number string) (uint64, *Share) {
	const want = "want a percentage of the node's memory such as 12%, or a quantity such as 4Gi"
	if !c.mayShare() {
		c.elsewhere(limitField, "is a percentage of the node's memory")
		c.boundsAlone()
		return 0, nil
	}
	percent, err := parsePercent(number, 64, want)
	if err != nil {
		c.bad(limitField, shown(raw), "%v", err)
	}
	s := &Share{
		Text: number + "%", OfBytes: c.node.boot(),
		MinBytes: c.limitBytes(limitMinField), MaxBytes: c.limitBytes(limitMaxField),
	}
	crossed := s.MaxBytes > 0 && s.MinBytes > s.MaxBytes
	if crossed {
		c.bad(limitMinField, shown(c.section[limitMinField]), "is above %s, %s; want at most that",
			limitMaxField, shown(c.section[limitMaxField]))
	}
	if err != nil || crossed {
		return 0, s
	}
	limit := shareOf(cmp.Or(s.OfBytes, anySize), percent)
	switch {
	case limit < s.MinBytes:
		limit, s.Bound = s.MinBytes, limitMinField
	case s.MaxBytes > 0 && limit > s.MaxBytes:
		limit, s.Bound = s.MaxBytes, limitMaxField
	}
	c.validatePercentage(limit, s)
	return limit, s
}

// validatePercentage compares the limit that a share has come to with the memory of the node.
func (c *checker) validatePercentage(limit uint64, s *Share) {
	if s.OfBytes == 0 {
		return
	}
	// Memory that was taken away since the boot counts from the next one. Memory that was added is
	// there for a bound.
	memory := max(s.OfBytes, c.node.MemoryBytes)
	switch {
	case limit >= memory:
		c.notBelow(cmp.Or(s.Bound, limitField), memory)
	case limit == 0:
		c.bad(limitField, quote(s.Text), "is less than 1 MiB of the node's memory of %d bytes; want more, or %s",
			s.OfBytes, limitMinField)
	case limit < smallLimit && s.Bound == "":
		c.warn(limitField, "%s of the node's memory, %d bytes, is less than %d MiB, %s will hardly start in it; want more, or %s",
			quote(s.Text), limit, smallLimit>>20, c.pods(), limitMinField)
	}
}

// boundsAlone reports bounds without a share. They would bound nothing, and who writes one expects
// it to.
func (c *checker) boundsAlone() {
	for _, field := range []string{limitMinField, limitMaxField} {
		raw := c.section[field]
		switch {
		case raw == nil:
		case !c.mayShare():
			c.elsewhere(field, "bounds a percentage of the node's memory")
		default:
			c.bad(field, shown(raw), "goes with a percentage in %s alone; remove it, or want e.g. %s: 12%%", limitField, limitField)
		}
	}
}

// mayShare reports whether the section is from the one file that may have a share. The field of the
// KEP is a quantity, and a kubelet that knows it does not start with a percentage.
func (c *checker) mayShare() bool {
	if c.name == partition.System {
		return c.config.System.Overrides
	}
	return c.config.Workloads.Overrides
}

// elsewhere reports a field that only the other file may have.
func (c *checker) elsewhere(field, is string) {
	c.bad(field, shown(c.section[field]), "%s, which only %s may have, because a kubelet takes a quantity here; "+
		"move the section to that file, or want %s: 4Gi and no bounds", is, kubeletconfig.OverridePath, limitField)
}
