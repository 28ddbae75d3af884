package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
)

// A line is the checksum of the rest in eight hexadecimal digits, a space, and a sample as JSON. So
// a line that was cut off, or that a power loss has filled with zeros, is found by itself, and
// "cut -c10-" makes a file of JSON.
const (
	checksumDigits = 8
	// maxLine exceeds the length of the longest sample: 128 members of some 700 bytes at most, and 17
	// partitions that have evicted 16 pods each.
	maxLine = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBroken is returned for a line that no Ring has written.
var errBroken = errors.New("broken line")

// appendLine appends the line of a sample.
func appendLine(to []byte, s Sample) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return to, fmt.Errorf("history: %w", err)
	}
	if len(text)+checksumDigits+2 > maxLine {
		return to, fmt.Errorf("history: a sample of %d bytes is too long", len(text))
	}
	to = fmt.Appendf(to, "%0*x ", checksumDigits, crc32.Checksum(text, castagnoli))
	to = append(to, text...)
	return append(to, '\n'), nil
}

// check returns the JSON of a line, which has no newline any more.
func check(line []byte) ([]byte, error) {
	sum, text, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(sum) != checksumDigits {
		return nil, errBroken
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || crc32.Checksum(text, castagnoli) != uint32(want) {
		return nil, errBroken
	}
	return text, nil
}
