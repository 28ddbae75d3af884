package sizefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/statefile"
	"nodepartition/internal/unitname"
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

// Read reads the record of a partition of the node at root. inRun means that it is in Volatile. An
// error for a record that was never written is fs.ErrNotExist.
func Read(root hostfs.FS, partition unitname.PartitionName) (r Record, inRun bool, err error) {
	if r, err = read(root, Volatile, partition); !errors.Is(err, fs.ErrNotExist) {
		return r, true, err
	}
	r, err = read(root, Dir, partition)
	return r, false, err
}

func read(root hostfs.FS, dir string, partition unitname.PartitionName) (r Record, err error) {
	name := path(dir, partition)
	data, err := root.ReadFile(name, MaxBytes)
	if err != nil {
		return r, err
	}
	if err = statefile.Decode(data, version, &r); err == nil {
		err = r.check(partition)
	}
	if err != nil {
		return Record{}, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func path(dir string, partition unitname.PartitionName) string {
	return filepath.Join(dir, string(partition)+".json")
}

// check returns an error for a record that this package does not write.
func (r *Record) check(partition unitname.PartitionName) error {
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

// File is a record that is written whole. One writer may have it.
type File struct {
	Record
	root hostfs.FS
}

// Open reads the record of a partition, or begins one. An error says why what there was is not
// continued: the record lacks it, and the File works.
func Open(root hostfs.FS, partition unitname.PartitionName) (*File, error) {
	f := &File{root: root, Record: Record{Version: version, Partition: partition}}
	r, inRun, err := Read(root, partition)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil // or /var is not mounted yet
	case err != nil:
		f.Lacks = "what was used before is not readable: " + err.Error()
		return f, err
	}
	f.Record = r
	if !inRun {
		f.Continues = r.To
	}
	return f, nil
}

// Encode returns what Write writes, so that the record may change while it is written.
func (f *File) Encode() (json.RawMessage, error) {
	//guard: a /var that was mounted late keeps its record
	if older, err := read(f.root, Dir, f.Partition); err == nil && !older.To.Equal(f.Continues) {
		f.follow(older)
		f.Continues = older.To
	}
	return json.Marshal(&f.Record)
}

// Write writes what Encode has returned for a record until to. It goes to Dir, or where that cannot
// be written to Volatile. Write returns an error only if it is in neither.
func (f *File) Write(data json.RawMessage, to time.Time) error {
	err := f.write(Dir, data)
	if err == nil {
		f.Continues = to
		if volatile, pathErr := f.root.Path(path(Volatile, f.Partition)); pathErr == nil {
			_ = os.Remove(volatile) // there may be none
		}
		return nil
	}
	if volatileErr := f.write(Volatile, data); volatileErr != nil {
		return errors.Join(err, volatileErr)
	}
	return nil
}

func (f *File) write(dir string, data json.RawMessage) error {
	name, err := f.root.Path(path(dir, f.Partition))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return statefile.WriteDisk(name, data, 0o600)
}
