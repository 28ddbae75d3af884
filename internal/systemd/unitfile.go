package systemd

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errNotUnderstood says that a unit file has something that systemd has to be asked for.
var errNotUnderstood = errors.New("not understood")

// unitFiles is what the files of a scope set, the unit file first and then its drop-ins.
//
// They are understood as systemd writes them for what is set through D-Bus, and only as far as container runtimes set it:
// whatever else is there is an error, never left out in silence.
type unitFiles struct {
	values map[string]any // by the name that the property has on D-Bus
	// inDropIn are the settings that a drop-in has. A second one may be newer than what the order of the names says, until
	// the next daemon-reload.
	inDropIn map[string]bool
	// delegated is whether Delegate=yes was there. Without it other properties have other defaults (OOMPolicy=).
	delegated bool
}

// add adds the text of a file.
func (f *unitFiles) add(text string, dropIn bool) error {
	here := map[string]bool{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, `\`) {
			return fmt.Errorf("%q: a line that goes on: %w", line, errNotUnderstood)
		}
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[':
			section = line
			continue
		case section != "[Scope]":
			continue // what a scope shares with other units: its description, its dependencies
		}
		name, value, _ := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if dropIn && f.inDropIn[name] {
			return fmt.Errorf("%s= is in two drop-ins: %w", name, errNotUnderstood)
		}
		here[name] = true
		if err := f.set(name, value); err != nil {
			return fmt.Errorf("%q: %w: %w", line, errNotUnderstood, err)
		}
	}
	if f.inDropIn == nil {
		f.inDropIn = map[string]bool{}
	}
	for name := range here {
		f.inDropIn[name] = dropIn
	}
	return nil
}

// set takes a line of the section [Scope]. The names are those of bus_cgroup_set_property (src/core/dbus-cgroup.c) and of
// what it writes.
func (f *unitFiles) set(name, value string) error {
	switch name {
	case "Slice", "CPUAccounting", "MemoryAccounting", "IOAccounting", "TasksAccounting":
		return nil // not the scope's own, or always set by us
	case "Delegate":
		// Not a list of controllers, and not "no".
		return f.put(name, value, func(s string) (any, error) {
			f.delegated = s == "yes"
			return f.delegated, oneOf(s, "yes")
		})
	case "MemoryMax", "MemoryHigh", "TasksMax":
		return f.put(name, value, func(s string) (any, error) { return limit(s, 1) })
	case "MemoryLow", "MemoryMin", "MemorySwapMax", "MemoryZSwapMax":
		return f.put(name, value, func(s string) (any, error) { return limit(s, 0) })
	case "CPUWeight", "IOWeight":
		return f.put(name, value, func(s string) (any, error) { return weight(s, name == "CPUWeight") })
	case "CPUQuota":
		return f.put("CPUQuotaPerSecUSec", value, percentOfSecond)
	case "CPUQuotaPeriodSec":
		return f.put("CPUQuotaPeriodUSec", value, func(s string) (any, error) {
			if s == "" {
				return uint64(math.MaxUint64), nil
			}
			return timespan(s)
		})
	case "TimeoutStopSec":
		return f.put("TimeoutStopUSec", value, timespan)
	case "AllowedCPUs", "AllowedMemoryNodes":
		before, _ := f.values[name].([]byte)
		return f.put(name, value, func(s string) (any, error) { return bitSet(s, before) })
	case "DevicePolicy":
		return f.put(name, value, func(s string) (any, error) { return s, oneOf(s, "auto", "closed", "strict") })
	case "DeviceAllow":
		before, _ := f.values[name].([]DeviceRule)
		return f.put(name, value, func(s string) (any, error) { return deviceRules(s, before) })
	case "OOMPolicy":
		return f.put(name, value, func(s string) (any, error) { return s, oneOf(s, "continue", "stop", "kill") })
	case "KillMode":
		return f.put(name, value, func(s string) (any, error) { return s, oneOf(s, "control-group", "mixed", "process", "none") })
	}
	return errors.New("no setting of a container runtime")
}

func (f *unitFiles) put(property, text string, parse func(string) (any, error)) error {
	value, err := parse(text)
	if err != nil {
		return err
	}
	if f.values == nil {
		f.values = map[string]any{}
	}
	f.values[property] = value
	return nil
}

func (f *unitFiles) properties() Properties {
	all := make([]Property, 0, len(f.values))
	for name, value := range f.values {
		all = append(all, Property{name, value})
	}
	return PropertiesOf(all...)
}

func oneOf(text string, words ...string) error {
	if !slices.Contains(words, text) {
		return fmt.Errorf("not one of %q", words)
	}
	return nil
}

// limit parses a number of bytes or of processes. A share of the machine, "10%", is systemd's to compute.
func limit(text string, least uint64) (any, error) {
	if text == "infinity" {
		return uint64(math.MaxUint64), nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && n < least {
		err = fmt.Errorf("less than %d", least)
	}
	return n, err
}

// weight parses CPUWeight= and IOWeight=; that none is set is no text. "idle" is 0 on D-Bus, for the CPU alone.
func weight(text string, mayIdle bool) (any, error) {
	switch {
	case text == "":
		return uint64(math.MaxUint64), nil
	case text == "idle" && mayIdle:
		return uint64(0), nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && (n < 1 || n > 10000) {
		err = errors.New("not from 1 to 10000")
	}
	return n, err
}

// percentOfSecond parses CPUQuota=, "25%", into microseconds. Newer systemds write "25.50%". Older ones cut off what is below
// one percent; runtimes have rounded it up before (addCPUQuota, opencontainers/cgroups systemd/common.go).
func percentOfSecond(text string) (any, error) {
	if text == "" {
		return uint64(math.MaxUint64), nil
	}
	number, ok := strings.CutSuffix(text, "%")
	whole, hundredths, hasPoint := strings.Cut(number, ".")
	if !ok || hasPoint && len(hundredths) != 2 {
		return nil, errors.New("not like 25% or 25.50%")
	}
	percent, err := strconv.ParseUint(whole, 10, 32)
	if err != nil {
		return nil, err
	}
	var rest uint64
	if hasPoint {
		if rest, err = strconv.ParseUint(hundredths, 10, 32); err != nil {
			return nil, err
		}
	}
	quota := percent*10_000 + rest*100
	if quota == 0 {
		return nil, errors.New("no quota")
	}
	return quota, nil
}

// timespan parses "1min 30s", "67ms" or "7000000us" into microseconds. Days and longer ones are left to systemd, and so is
// zero, which means another thing for each setting.
func timespan(text string) (any, error) {
	var sum time.Duration
	for _, field := range strings.Fields(text) {
		if minutes, ok := strings.CutSuffix(field, "min"); ok {
			field = minutes + "m"
		}
		d, err := time.ParseDuration(field)
		if err != nil || d < 0 || d%time.Microsecond != 0 || sum+d < sum {
			return nil, errors.New("not a time span")
		}
		sum += d
	}
	if sum == 0 {
		return nil, errors.New("no time")
	}
	return uint64(sum / time.Microsecond), nil
}

// maxBit is more than a machine has CPUs or memory nodes.
const maxBit = 8192

// bitSet parses "0-3 8" into what D-Bus has, the lowest eight in the first byte and no zeros at the end. A second line adds to
// the first one in a file; but where it was set through D-Bus it replaced it, and up to some version after 252 the file does
// not say which of the two it was.
func bitSet(text string, before []byte) (any, error) {
	set := []byte{}
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		first, last, isRange := strings.Cut(field, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		if err != nil {
			return nil, err
		}
		to, err := strconv.ParseUint(last, 10, 32)
		if err != nil {
			return nil, err
		}
		if to < from || to >= maxBit {
			return nil, errors.New("not a range")
		}
		for n := from; n <= to; n++ {
			for uint64(len(set)) <= n/8 {
				set = append(set, 0)
			}
			set[n/8] |= 1 << (n % 8)
		}
	}
	if len(set) > 0 && len(before) > 0 && !slices.Equal(set, before) {
		return nil, errors.New("set twice")
	}
	return set, nil
}

// deviceRules adds a line of DeviceAllow=, "/dev/null rw". One without a text removes what was there before.
func deviceRules(text string, before []DeviceRule) (any, error) {
	fields := strings.Fields(text)
	switch {
	case len(fields) == 0:
		return []DeviceRule{}, nil
	case len(fields) != 2 || strings.Trim(fields[1], "rwm") != "":
		return nil, errors.New("not a device and its accesses")
	case strings.ContainsAny(fields[0], `%"'\`):
		return nil, errors.New("a name with escapes")
	case slices.ContainsFunc(before, func(r DeviceRule) bool { return r.Node == fields[0] && r.Access != fields[1] }):
		return nil, errors.New("two rules for one device")
	}
	rule := DeviceRule{fields[0], fields[1]}
	if slices.Contains(before, rule) {
		return before, nil
	}
	return append(slices.Clip(before), rule), nil
}
