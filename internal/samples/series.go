package samples

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A series is kept in segments: files that are appended to, numbered from 1. When the last one is
// full, another begins and the first is removed. The numbers give the order, so it does not
// depend on the clock.
type kind struct {
	name string
	// lines and bytes bound a segment, and segments their number.
	lines, bytes, segments int
	// batch is the number of lines that are written together.
	batch int
}

var (
	// minutes holds samples of a minute, for 24 to 30 hours. A line of 17 partitions has some 9 KB.
	minutes = kind{name: "minutes", lines: 6 * 60, bytes: 4 << 20, segments: 5, batch: 5}
	// tens holds samples of ten minutes, for 14 to 16 days: for 8 days at least on a node with 17
	// partitions of many pods, where a line has some 50 KB.
	tens = kind{name: "tens", lines: 2 * 24 * 6, bytes: 8 << 20, segments: 8, batch: 1}
)

const (
	extension = ".log"
	// badExtension marks a file that was set aside.
	badExtension = ".bad"
)

func (k kind) file(number int) string { return fmt.Sprintf("%s-%06d%s", k.name, number, extension) }

// numbers lists the segments in a folder, the oldest first.
func (k kind) numbers(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []int
	for _, entry := range entries {
		middle, ok := strings.CutPrefix(entry.Name(), k.name+"-")
		digits, isLog := strings.CutSuffix(middle, extension)
		if n, err := strconv.Atoi(digits); ok && isLog && err == nil && n > 0 && k.file(n) == entry.Name() {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// contents counts the lines of a segment.
type contents struct {
	good, broken, bytes int
	// torn means that the last line has no end: its writer was killed, or writes now.
	torn bool
	// lastLine is the JSON of the last line, nil if it is broken, and lastAt its place in bytes.
	lastLine []byte
	lastAt   int
}

// scan opens a segment with flags, and calls take with the JSON of each good line. take may be nil.
func scan(path string, flags int, take func(text []byte)) (contents, error) {
	var c contents
	// O_NONBLOCK: a pipe would wait for its other end. O_NOFOLLOW: no link leads out of another
	// node's files.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|flags, 0)
	if err != nil {
		return c, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return c, err
	} else if !info.Mode().IsRegular() {
		return c, fmt.Errorf("%s: not a regular file", path)
	}
	reader := bufio.NewReaderSize(file, maxLine)
	skipping := false
	for {
		line, err := reader.ReadSlice('\n')
		at := c.bytes
		c.bytes += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			skipping = true
			continue
		case errors.Is(err, io.EOF):
			c.torn = skipping || len(line) > 0
			return c, nil
		case err != nil:
			return c, err
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		text, checkErr := check(line)
		switch {
		case skipping || len(line) > 0 && checkErr != nil:
			c.broken++
			c.lastLine = nil
		case len(line) > 0:
			c.good++
			c.lastLine, c.lastAt = append(c.lastLine[:0], text...), at
			if take != nil {
				take(text)
			}
		}
		skipping = false
	}
}

// damaged reports whether a segment is of no use any more. A crash breaks one line. A segment in
// which most lines are broken is not a segment of ours.
func (c contents) damaged() bool {
	return c.broken > c.good || c.torn && c.good == 0 && c.bytes > maxLine
}

// setAside renames a damaged segment. At most one file of a series is kept.
func (k kind) setAside(dir string, number int) error {
	return os.Rename(filepath.Join(dir, k.file(number)), filepath.Join(dir, k.name+badExtension))
}

// removeOld removes the segments that are too many.
func (k kind) removeOld(dir string, last int) error {
	list, err := k.numbers(dir)
	if err != nil {
		return err
	}
	for _, n := range list {
		if n > last-k.segments {
			break
		}
		if err := os.Remove(filepath.Join(dir, k.file(n))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
