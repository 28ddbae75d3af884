package podmove

import (
	"errors"
	"fmt"

	"node-partition.io/node-partition/internal/cgroupfs"
	"node-partition.io/node-partition/internal/statefile"
)

// record holds what a monitor that starts again has to know, and its file.
type record[T any] struct{ now, stored T }

// recordForm is the form of a record in its file.
type recordForm[T any] struct {
	// what is recorded, for messages.
	what string
	// read reads a file. One that is missing or broken counts as none.
	read func(path string) T
	// file returns what is written for a value.
	file  func(T) any
	equal func(a, b T) bool
}

// load reads the record. Without a path there is none.
func (r *record[T]) load(path string, form recordForm[T]) {
	if path != "" {
		r.stored = form.read(path)
	}
	r.now = r.stored
}

// store replaces the record, and the file if it differs. Without a path there is no file.
func (r *record[T]) store(path string, next T, form recordForm[T]) error {
	r.now = next
	if form.equal(r.stored, next) {
		return nil
	}
	if path != "" {
		if err := statefile.Write(path, form.file(next), 0o600); err != nil {
			return fmt.Errorf("%s: %w", form.what, err)
		}
	}
	r.stored = next
	return nil
}

// recall reads what an earlier process has recorded.
func (r *Reconciler) recall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raised.load(r.options.RaisedFile, raisedForm())
	r.cpu.load(r.options.CPUFile, cpuForm())
}

// record stores the protected memory that kubepods.slice may have from now on, and the CPU time of
// members.
func (r *Reconciler) record(p cgroupfs.Protection, cpu CPURecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(
		r.raised.store(r.options.RaisedFile, p, raisedForm()), r.cpu.store(r.options.CPUFile, cpu, cpuForm()),
	)
}
