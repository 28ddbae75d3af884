package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Ring writes samples. Its methods belong to one goroutine, and one Ring writes a folder at a time.
//
// It writes each five minutes, and when a pod was evicted or a process was killed. It does not wait
// for the disk (fsync): the kernel writes within half a minute. So a power loss costs the last
// minutes, and no more. No ready-made store fits: those for time series keep an index or one file
// for each value, and logs for databases wait for the disk at each record.
type Ring struct {
	minutes, tens writer
	// sum is the part of ten minutes that is not complete; nil before the first sample.
	sum *Sample
	// lastMinute and lastTen are the last samples of the Ring before this one, until the first Add.
	lastMinute, lastTen *Sample
}

// Open opens the ring in a folder, and creates the folder. notice is called with what a crash, or
// another program, has left there; such files are set aside.
func Open(dir string, notice func(error)) (*Ring, error) {
	r := &Ring{minutes: writer{kind: minutes, dir: dir}, tens: writer{kind: tens, dir: dir}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	for _, w := range []*writer{&r.minutes, &r.tens} {
		if err := w.open(notice); err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
	}
	r.lastMinute, r.lastTen = r.minutes.last(), r.tens.last()
	return r, nil
}

// Add adds the sample of a minute. The first one replaces the last one on the disk, by the sum of
// both, if that belongs to the same minute: a service that is restarted each second does not fill
// the history. The same holds for the ten minutes. After an error the sample is kept in memory, and
// written with a later one; a Ring keeps an hour at most.
func (r *Ring) Add(s Sample) error {
	s.bound()
	var err error
	if r.sum != nil && !window(r.sum.Time).Equal(window(s.Time)) {
		err = r.endSum()
	}
	fine := s.withoutMembers()
	if r.lastMinute.reaches(s, time.Minute) {
		fine = merge(*r.lastMinute, fine)
		r.minutes.replace = true
	}
	if r.sum == nil && r.lastTen.reaches(s, coarse) {
		r.sum, r.tens.replace = r.lastTen, true
	}
	r.lastMinute, r.lastTen = nil, nil
	if r.sum == nil {
		r.sum = &s
	} else {
		sum := merge(*r.sum, s)
		r.sum = &sum
	}
	err = errors.Join(err, r.minutes.add(fine))
	if r.minutes.waiting >= minutes.batch || s.urgent() {
		err = errors.Join(err, r.minutes.write())
	}
	return err
}

// withoutMembers returns the sample without pods. Their number is not left out of a sample that has
// none.
func (s Sample) withoutMembers() Sample {
	//guard: a sample of a minute does not take the pods from the ten minutes
	s.Members, s.Others = nil, slices.Clone(s.Others)
	for i := range s.Others {
		s.Others[i].Members, s.Others[i].MembersLeft = nil, 0
	}
	return s
}

// Close writes what is in memory.
func (r *Ring) Close() error {
	var err error
	if r.sum != nil {
		err = r.endSum()
	}
	return errors.Join(err, r.minutes.write())
}

func (r *Ring) endSum() error {
	sum := *r.sum
	r.sum = nil
	return errors.Join(r.tens.add(sum), r.tens.write())
}

// writer appends to the last segment of a series.
type writer struct {
	kind
	dir string
	// number is the last segment, and in its contents.
	number int
	in     contents
	// replace means that the next line replaces the last one.
	replace bool
	// pending holds the lines that are not written yet, and waiting is their number.
	pending []byte
	waiting int
}

// maxPending bounds the lines in memory while the disk is full.
const maxPending = 60

func (w *writer) open(notice func(error)) error {
	list, err := w.numbers(w.dir)
	if err != nil {
		return err
	}
	w.number = 1
	for _, n := range list {
		path := filepath.Join(w.dir, w.file(n))
		in, err := scan(path, unix.O_NOFOLLOW, nil)
		w.number, w.in = n, in
		if err == nil && !in.damaged() {
			continue
		}
		if err == nil {
			err = fmt.Errorf("%s: %d of %d lines are broken", path, in.broken, in.broken+in.good)
		}
		notice(fmt.Errorf("history: %w; set aside as %s", err, w.name+badExtension))
		if err := w.setAside(w.dir, n); err != nil {
			return err
		}
		w.number, w.in = n+1, contents{}
	}
	return nil
}

// last returns the last sample on the disk, nil if it is not the end of the last segment.
func (w *writer) last() *Sample {
	var s Sample
	if w.in.torn || w.in.lastLine == nil || json.Unmarshal(w.in.lastLine, &s) != nil {
		return nil
	}
	w.in.lastLine = nil
	return &s
}

// add adds a line to those that are to be written.
func (w *writer) add(s Sample) error {
	pending, err := appendLine(w.pending, s)
	if err != nil {
		return err
	}
	w.pending = pending
	w.waiting++
	for ; w.waiting > maxPending; w.waiting-- {
		_, rest, _ := bytes.Cut(w.pending, []byte("\n"))
		w.pending = append(w.pending[:0], rest...)
	}
	return nil
}

// write writes the pending lines in one system call.
func (w *writer) write() error {
	if w.waiting == 0 {
		return nil
	}
	full := w.in.good+w.in.broken >= w.lines || w.in.bytes+len(w.pending) > w.bytes && w.in.bytes > 0
	if full && !w.replace {
		w.number, w.in = w.number+1, contents{}
		if err := w.removeOld(w.dir, w.number); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	path := filepath.Join(w.dir, w.file(w.number))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // the folder was removed
		if err = os.MkdirAll(w.dir, 0o700); err == nil {
			file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer file.Close()
	if err := w.prepare(file); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	text := w.pending
	if w.in.torn { // the end of a line that was cut off
		text = append([]byte{'\n'}, text...)
	}
	n, err := file.Write(text)
	if err != nil {
		// The next attempt writes all lines again.
		if n > 0 && file.Truncate(int64(w.in.bytes)) != nil {
			w.in.torn = true
			w.in.bytes += n
		}
		return fmt.Errorf("history: %w", err)
	}
	w.in.torn = false
	w.in.bytes += n
	w.in.good += w.waiting
	w.pending, w.waiting = w.pending[:0], 0
	return nil
}

// prepare brings the contents up to date with the file, which may have been removed or changed, and
// cuts off the line that is replaced.
func (w *writer) prepare(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if size := int(info.Size()); size != w.in.bytes {
		w.in, w.replace = contents{bytes: size, torn: size > 0}, false
	}
	if !w.replace {
		return nil
	}
	if err := file.Truncate(int64(w.in.lastAt)); err != nil {
		return err
	}
	w.in.bytes, w.in.good, w.replace = w.in.lastAt, w.in.good-1, false
	return nil
}
