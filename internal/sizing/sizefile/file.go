package sizefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
)

const (
	// Dir is the folder of the files.
	Dir = "/var/lib/node-partition/sizes"
	// Volatile is the folder in which they are while Dir cannot be written: /var is read-only, or not
	// mounted yet. A reboot empties it.
	Volatile = "/run/node-partition/monitor/sizes"
	// MaxBytes bounds a file. A larger one is none of ours.
	MaxBytes = 64 << 10
)

// Read reads the record of a partition of the node at root: the newer of the two. inRun means that
// it is in Volatile. An error for a record that was never written is fs.ErrNotExist.
func Read(root host.Root, partition partition.Name) (r Record, inRun bool, err error) {
	r, err = read(root, Dir, partition)
	volatile, volatileErr := read(root, Volatile, partition)
	//guard: a record that is in both folders counts once
	if volatileErr == nil && (err != nil || volatile.To.After(r.To)) || errors.Is(err, fs.ErrNotExist) {
		return volatile, true, volatileErr
	}
	return r, false, err
}

func read(root host.Root, dir string, partition partition.Name) (r Record, err error) {
	name := path(dir, partition)
	data, err := root.ReadFile(name, MaxBytes)
	if err != nil {
		return r, err
	}
	if err = host.DecodeState(data, version, &r); err == nil {
		err = r.check(partition)
	}
	if err != nil {
		return Record{}, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func path(dir string, partition partition.Name) string {
	return filepath.Join(dir, string(partition)+".json")
}

// check returns an error for a record that this package does not write.
func (r *Record) check(partition partition.Name) error {
	switch {
	case r.Partition != partition:
		return fmt.Errorf("it is about partition %q", r.Partition)
	case len(r.Minutes) > day || len(r.Hours) > month || len(r.Members) > maxMembers:
		return errors.New("it has more minutes, hours or members than are written")
	case r.Passed < 0 || r.Passed > 60 || r.Passed > 0 && len(r.Hours) == 0 || r.To.IsZero() != (len(r.Hours) == 0):
		return errors.New("its hours and its time do not belong together")
	}
	return nil
}

// Open reads the record of a partition, or begins one. An error says why what there was is not
// continued: the record lacks it, and works.
func Open(root host.Root, partition partition.Name) (Record, error) {
	r, _, err := Read(root, partition)
	if err == nil {
		return r, nil
	}
	r = Record{Version: version, Partition: partition}
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil // or /var is not mounted yet
	}
	r.Lacks = "what was used before is not readable: " + err.Error()
	return r, err
}

// Write writes the record to Dir, or where that cannot be written to Volatile. It returns an error
// only if it is in neither. One writer may have a record.
func (r *Record) Write(root host.Root) error {
	if r.To.IsZero() {
		return nil // it has nothing
	}
	//guard: a /var that was mounted late keeps its record
	if older, err := read(root, Dir, r.Partition); err == nil && !older.Began.Equal(r.Began) {
		r.follow(older)
	}
	err := r.write(root, Dir)
	if err == nil {
		if volatile, pathErr := root.Path(path(Volatile, r.Partition)); pathErr == nil {
			_ = os.Remove(volatile) // there may be none
		}
		return nil
	}
	if volatileErr := r.write(root, Volatile); volatileErr != nil {
		return errors.Join(err, volatileErr)
	}
	return nil
}

func (r *Record) write(root host.Root, dir string) error {
	name, err := root.Path(path(dir, r.Partition))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return host.WriteStateDisk(name, r, 0o600)
}
