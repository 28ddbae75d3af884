package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
)

// series is the memory of a container by the minute. It is NaN before the container starts. A
// minute that was not measured has the value before it, and so have those after the last: as if the
// container went on as it was.
type series []float64

// most bounds the minutes of a trace: a month.
const most = 31 * 24 * 60

// readTrace reads a file with the columns container, minute and utilisation, which may be
// compressed by gzip.
func readTrace(path string) ([]series, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	buffered := bufio.NewReader(file)
	var in io.Reader = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzip, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		in = unzip
	}
	trace, err := parseTrace(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return trace, nil
}

func parseTrace(in io.Reader) ([]series, error) {
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(header, []string{"container", "minute", "utilisation"}) {
		return nil, fmt.Errorf("want the columns container,minute,utilisation, not %q", header)
	}
	var order []string
	values := map[string]map[int]float64{}
	last := 0
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		minute, err := strconv.Atoi(row[1])
		if err != nil || minute < 0 || minute >= most {
			return nil, fmt.Errorf("minute %q: want a number from 0 to %d", row[1], most-1)
		}
		value, err := strconv.ParseFloat(row[2], 64)
		if err != nil || value < 0 || math.IsInf(value, 0) || math.IsNaN(value) {
			return nil, fmt.Errorf("utilisation %q: want a number that is not negative", row[2])
		}
		if values[row[0]] == nil {
			values[row[0]] = map[int]float64{}
			order = append(order, row[0])
		}
		values[row[0]][minute] = value
		last = max(last, minute)
	}
	trace := make([]series, 0, len(order))
	for _, container := range order {
		s, now := make(series, last+1), math.NaN()
		for minute := range s {
			if value, ok := values[container][minute]; ok {
				now = value
			}
			s[minute] = now
		}
		trace = append(trace, s)
	}
	return trace, nil
}
