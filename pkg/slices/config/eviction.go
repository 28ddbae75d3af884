package config

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"node-partition.io/node-partition/internal/thresholds"
)

// The fields of amounts that are compared with memoryLimit. Those of eviction follow the names and
// rules of the kubelet's fields for the node (ParseThresholdConfig,
// pkg/kubelet/eviction/helpers.go, 1.37.0).
const (
	hardField       = "evictionHard"
	softField       = "evictionSoft"
	softPeriodField = "evictionSoftGracePeriod"
	podPeriodField  = "evictionMaxPodGracePeriod"
	reclaimField    = "evictionMinimumReclaim"
	highField       = "memoryHigh"
	// memoryAvailable is the only eviction signal of the partition. It has the name of the kubelet's
	// signal for the node.
	memoryAvailable = "memory.available"
)

// The default of evictionHard: a percentage of memoryLimit, and at least so many bytes.
const (
	defaultPercent = 5
	defaultLeast   = 32 << 20
)

// amount is an amount of memory as a section has it: a number of bytes, or a percentage of
// memoryLimit above 0 and below 100. Both are 0 for a threshold that is switched off.
type amount struct {
	bytes   uint64
	percent float64
	// text is the value in messages; empty without one.
	text string
}

// of returns the amount in bytes. It rounds as the kubelet does, whose percentages have 32 bits
// (parsePercentage in pkg/kubelet/eviction/helpers.go, GetThresholdQuantity in
// pkg/kubelet/eviction/api/types.go).
func (a amount) of(limit uint64) uint64 {
	if a.percent == 0 {
		return a.bytes
	}
	return uint64(float64(limit) * float64(float32(a.percent)/100))
}

type amounts struct {
	hard, soft, reclaim, high, burst amount
	// least is a lower bound of the default of hard in bytes: see StatErrorBytes.
	least uint64
}

// DefaultThreshold returns the default of evictionHard for a limit, in bytes: 5 % of the limit, at
// least 32 MiB, and at least least, which is StatErrorBytes of the node.
//
// It is at most half of the limit: with 32 MiB less, a limit of 40 MiB would hardly leave anything
// to use, and a limit of 32 MiB would always evict. This cap applies to limits below 64 MiB, of
// which the configuration warns, and below twice least.
func DefaultThreshold(limit, least uint64) uint64 {
	return max(amount{percent: defaultPercent}.of(limit), min(max(defaultLeast, least), limit/2))
}

// At returns the thresholds that the section comes to with another limit, in bytes. Percentages and
// the default follow the limit.
func (p *Partition) At(limit uint64) thresholds.Thresholds {
	t := p.Thresholds
	t.Limit, t.Soft, t.MinimumReclaim = limit, p.amounts.soft.of(limit), p.amounts.reclaim.of(limit)
	t.Burst = p.amounts.burst.of(limit)
	t.Hard = DefaultThreshold(limit, p.amounts.least)
	if p.amounts.hard.text != "" {
		t.Hard = p.amounts.hard.of(limit)
	}
	return t
}

// readAmounts reads the fields that are compared with the limit. Without a limit it warns of them:
// no amount of memory is available then.
func (c *checker) readAmounts(p *Partition) {
	p.MaxPodGrace = -1
	a := &p.amounts
	//guard: a section without a limit has the least threshold of the node
	a.least = StatErrorBytes(c.node.CPUs)
	if c.section[limitField] == nil {
		c.memoryBurst(amount{})
		for _, field := range []string{hardField, softField, softPeriodField, podPeriodField, reclaimField, highField} {
			if c.section[field] != nil {
				c.warn(field, "does nothing without memoryLimit")
			}
		}
		// A limit that is recommended has them in it (At). What is wrong with them counts with a limit.
		valid := len(c.problems)
		a.hard, a.soft = c.threshold(hardField, c.signal(hardField, "")), c.threshold(softField, c.signal(softField, ""))
		//guard: thresholds that do nothing refuse no section
		c.problems = c.problems[:valid]
		return
	}
	a.hard = c.threshold(hardField, c.signal(hardField, "100Mi"))
	a.burst = c.memoryBurst(a.hard)
	value, period := c.signal(softField, "200Mi"), c.signal(softPeriodField, "1m30s")
	a.soft = c.threshold(softField, value)
	evicts := a.soft.bytes > 0 || a.soft.percent > 0
	grace, err := parseGracePeriod(period)
	switch {
	case period != nil && err != nil:
		c.badSignal(softPeriodField, period, "%v", err)
	case evicts && period == nil:
		c.bad(
			softPeriodField+"["+memoryAvailable+"]", "",
			"is missing; want how long %s has to be met, such as 1m30s", softField,
		)
	case evicts:
		p.SoftGrace = grace
	}
	c.maxPodGracePeriod(p)
	if value := c.signal(reclaimField, "50Mi"); value != nil {
		if a.reclaim, err = parseAmount(value, 0, wantReclaim); err != nil {
			c.badSignal(reclaimField, value, "%v", err)
		}
	}
	if raw := c.section[highField]; raw != nil {
		if a.high, err = parseAmount(raw, 1, wantHigh); err != nil {
			c.bad(highField, shown(raw), "%v", err)
		}
	}
	// The kubelet does not warn of fields that do nothing.
	for _, field := range []string{softPeriodField, podPeriodField} {
		if c.section[field] != nil && c.section[softField] == nil {
			c.warn(field, "does nothing without %s", softField)
		}
	}
}

// signal returns the value of memory.available in a field that maps signals to values; nil if there
// is none.
func (c *checker) signal(field, example string) json.RawMessage {
	var signals map[string]json.RawMessage
	if !c.read(field, &signals, "is not an object; want e.g. {"+memoryAvailable+": "+example+"}") {
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

func (c *checker) badSignal(field string, value json.RawMessage, format string, args ...any) {
	c.bad(field+"["+memoryAvailable+"]", shown(value), format, args...)
}

func (c *checker) threshold(field string, value json.RawMessage) amount {
	if value == nil {
		return amount{}
	}
	a, err := parseThreshold(value)
	if err != nil {
		c.badSignal(field, value, "%v", err)
	}
	return a
}

// maxPodGracePeriod reads evictionMaxPodGracePeriod and refuses a negative number. The help of the
// kubelet's flag says that a negative number means the pod's own grace period. The kubelet's code
// takes the lesser of the two, which is none at all (managerImpl.synchronize,
// pkg/kubelet/eviction/eviction_manager.go).
//
// If the kubelet's field is missing, the kubelet uses 0 and still gives a pod two seconds after
// SIGTERM (minimumGracePeriodInSeconds, pkg/kubelet/kuberuntime). An operator who sets a soft
// threshold wants a clean end, so a missing field here means the pod's own grace period.
func (c *checker) maxPodGracePeriod(p *Partition) {
	raw := c.section[podPeriodField]
	if raw == nil {
		return
	}
	var seconds int32
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds < 0 {
		c.bad(podPeriodField, shown(raw), "is not a number of seconds; want 0, which is at once, to %d", math.MaxInt32)
	}
	p.MaxPodGrace = time.Duration(seconds) * time.Second
}

const (
	wantThreshold = "want a quantity below memoryLimit, such as 100Mi, or a percentage of it, such as 5%"
	wantReclaim   = "want a quantity such as 50Mi, or a percentage of memoryLimit, such as 2%"
	wantBurst     = "want a quantity such as 1Gi, or a percentage of memoryLimit, such as 25%"
	wantHigh      = "want a quantity below memoryLimit, such as 3500Mi, or a percentage of it, such as 90%"
)

// parseThreshold parses a threshold: a quantity or a percentage, and 0% or 100% for none
// (parseThresholdStatement, pkg/kubelet/eviction/helpers.go).
func parseThreshold(raw json.RawMessage) (amount, error) {
	text, err := parseString(raw, wantThreshold)
	if err != nil {
		return amount{}, err
	}
	if text == "0%" || text == "100%" {
		return amount{text: shown(raw)}, nil
	}
	return parseAmount(raw, 1, wantThreshold)
}

// parseAmount parses a percentage, or a quantity of least bytes or more.
func parseAmount(raw json.RawMessage, least int, want string) (a amount, err error) {
	if number, isPercent := percentage(raw); isPercent {
		a.percent, err = parsePercent(number, 32, want)
	} else {
		a.bytes, err = parseBytes(raw, least)
	}
	if err == nil {
		a.text = shown(raw)
	}
	return a, err
}

// parseGracePeriod parses the grace period of a soft threshold. The kubelet accepts zero and makes
// a hard threshold of it (isHardEvictionThreshold, pkg/kubelet/eviction/helpers.go). Here zero is
// refused, because the hard threshold has its own field.
func parseGracePeriod(raw json.RawMessage) (time.Duration, error) {
	const want = "want a duration such as 30s or 1m30s"
	text, err := parseString(raw, want)
	if err != nil {
		return 0, err
	}
	period, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("is not a duration; " + want)
	}
	if period <= 0 {
		return 0, errors.New("must be above zero; evictionHard evicts at once; " + want)
	}
	return period, nil
}

// parseString parses a string. The kubelet's fields of these names are maps of strings.
func parseString(raw json.RawMessage, want string) (string, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", errors.New("is not a string; " + want)
	}
	return text, nil
}
