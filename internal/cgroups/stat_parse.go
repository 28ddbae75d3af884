package cgroups

import (
	"bytes"
	"fmt"
	"strconv"
)

// newline and space separate lines, and the fields of a line.
var newline, space = []byte("\n"), []byte(" ")

// number reads a file with a number or "max", and reports whether it exists.
func (f *files) number(name string, value *uint64) bool {
	data, ok := f.read(name)
	if !ok {
		return false
	}
	n, err := parseMax(string(bytes.TrimSuffix(data, newline)))
	if err != nil {
		f.fail(name, err)
		return false
	}
	*value = n
	return true
}

// keyed is a line of a flat keyed file, such as "oom_kill 1" of memory.events, and the destination
// of its value.
type keyed struct {
	key   string
	value *uint64
}

// keyed reads some lines of a flat keyed file. A missing line leaves its value unchanged: kernels
// differ.
func (f *files) keyed(name string, want ...keyed) {
	data, ok := f.read(name)
	if !ok {
		return
	}
	if err := parseKeyed(data, want); err != nil {
		f.fail(name, err)
	}
}

// parseKeyed stops when it has found all keys: memory.stat has some sixty lines.
func parseKeyed(data []byte, want []keyed) error {
	for missing := len(want); missing > 0 && len(data) > 0; {
		var line []byte
		line, data, _ = bytes.Cut(data, newline)
		key, value, ok := bytes.Cut(line, space)
		if !ok {
			continue
		}
		for _, w := range want {
			if string(key) != w.key {
				continue
			}
			n, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil {
				// w.key here would move all destinations in want to the heap.
				return fmt.Errorf("%s: %w", string(key), err)
			}
			*w.value = n
			missing--
		}
	}
	return nil
}
