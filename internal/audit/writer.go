package audit

import (
	"path"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// secondWriters compares the files of slices with the properties that systemd keeps for them.
// systemd is the only writer of the cgroups of its units. Files of scopes are left out: containers'
// scopes are delegated to the runtime.
func (a *audit) secondWriters() {
	for _, cgroup := range a.sorted() {
		unit, ok := a.Units[path.Base(cgroup)]
		if !ok || !strings.HasSuffix(cgroup, ".slice") || unit["ActiveState"] != "active" {
			continue
		}
		for name, text := range a.Cgroups[cgroup] {
			kept, known := a.kept(unit, name)
			if !known || kept == nil || kept.equal(text) {
				continue
			}
			target := file(cgroup, name)
			a.add(Finding{
				Severity: warning, Path: target, Value: text, Expected: kept.text(),
				Why: "systemd keeps " + kept.property() + " for " + path.Base(cgroup) + ", so another program has written the file. " +
					"systemd is the only writer of its slices: it overwrites the file with its own value, at the latest when a property changes",
				Document: docWriter,
				Cure:     "echo '" + shown(kept) + "' > " + target,
			})
		}
	}
}

// shown returns a value as it is written into a file.
func shown(v value) string {
	if set, ok := v.(cpus); ok && cpuset.CPUSet(set).IsEmpty() {
		return ""
	}
	return v.text()
}

// kept returns the value that systemd keeps for a file of a unit's cgroup. known is false if a
// property has no such value, or if it cannot be parsed.
func (a *audit) kept(unit Unit, name string) (v value, known bool) {
	property, ok := properties[name]
	if !ok {
		return nil, false
	}
	if name == cpuMax {
		property = "CPUQuotaPerSecUSec"
	}
	text, ok := unit[property]
	if !ok {
		return nil, false
	}
	if name == cpusetCPUs {
		return keptCPUs(unit, text)
	}
	if text == infinity {
		return none(name), name != cpuWeight
	}
	switch name {
	case cpuMax:
		micros, ok := parseSpan(text)
		return quota(micros / 1000), ok
	case cpuWeight:
		if text == "[not set]" {
			return count{name, defaultWeight}, true
		}
		number, err := strconv.ParseUint(text, 10, 64)
		return count{name, number}, err == nil
	case pidsMax:
		number, err := strconv.ParseUint(text, 10, 64)
		return count{name, number}, err == nil
	}
	number, err := strconv.ParseUint(text, 10, 64)
	return byteLimit{name, number, a.Node.PageSize}, err == nil
}

// defaultWeight is the kernel's cpu.weight of a cgroup without one.
const defaultWeight = 100

// keptCPUs parses AllowedCPUs. While the node starts, StartupAllowedCPUs replaces it.
func keptCPUs(unit Unit, text string) (value, bool) {
	if text == "" && unit["StartupAllowedCPUs"] != "" {
		return nil, false
	}
	set, err := cpuset.Parse(strings.ReplaceAll(text, " ", ","))
	return cpus(set), err == nil
}

// parseSpan parses a span of time as systemctl show prints it, such as "1min 500ms", into
// microseconds (systemd.time(7)).
func parseSpan(text string) (micros int64, ok bool) {
	units := []struct {
		suffix string
		micros float64
	}{{"min", 60e6}, {"ms", 1e3}, {"us", 1}, {"s", 1e6}, {"h", 3600e6}, {"d", 86400e6}}
	fields := strings.Fields(text)
	for _, field := range fields {
		parsed := false
		for _, u := range units {
			number, has := strings.CutSuffix(field, u.suffix)
			if !has {
				continue
			}
			n, err := strconv.ParseFloat(number, 64)
			total := float64(micros) + n*u.micros + 0.5
			if err != nil || n < 0 || !(total < 1<<53) { // NaN is not below it
				return 0, false
			}
			micros, parsed = int64(total), true
			break
		}
		if !parsed {
			return 0, false
		}
	}
	return micros, len(fields) > 0
}
