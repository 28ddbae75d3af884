package cgroups

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Pressure is the time for which processes waited for a resource (the kernel's accounting/psi.rst).
type Pressure struct {
	// Known is false if the kernel does not measure it: before Linux 4.20, with psi=0, or with 0 in
	// cgroup.pressure.
	Known bool
	// Some is the time since the cgroup was created in which at least one process waited.
	Some time.Duration
	// Full is the time in which all processes that were not idle waited. It is zero for the CPU before
	// Linux 5.13.
	Full time.Duration
}

// pressure reads a pressure file. The parser of procfs reads /proc/pressure only, and uses Sscanf,
// which takes 6.6 µs and 24 allocations; parsePressure takes 0.2 µs and none. The parser of
// opencontainers/cgroups comes only together with all its other statistics of a cgroup.
func (f *files) pressure(name string, pressure *Pressure) {
	data, ok := f.read(name)
	if !ok {
		return
	}
	p, err := parsePressure(data)
	if err != nil {
		f.fail(name, err)
		return
	}
	*pressure = p
}

// parsePressure parses
//
//	some avg10=0.12 avg60=0.05 avg300=0.01 total=123456
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=4567
func parsePressure(data []byte) (Pressure, error) {
	pressure := Pressure{Known: true}
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, newline)
		kind, values, _ := bytes.Cut(line, space)
		var err error
		switch string(kind) {
		case "some":
			pressure.Some, err = parseTotal(values)
		case "full":
			pressure.Full, err = parseTotal(values)
		}
		if err != nil {
			return Pressure{}, fmt.Errorf("%s: %w", string(kind), err)
		}
	}
	return pressure, nil
}

// parseTotal parses the total of a line, in microseconds.
func parseTotal(values []byte) (time.Duration, error) {
	_, total, _ := bytes.Cut(values, []byte("total="))
	usec, err := strconv.ParseUint(string(total), 10, 64)
	return microseconds(usec), err
}
