package evict

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"nodepartition/internal/statefile"
	"nodepartition/internal/unitname"
)

// stateVersion is the version of the state files. It is raised when a field changes its meaning. A
// new field does not raise it: earlier versions of the program ignore fields that they do not know.
const stateVersion = 1

// stamp is the beginning of a state file.
type stamp struct {
	// Version is 0 in a file from before there were versions. There was only the system partition
	// then.
	Version   int                    `json:"version,omitempty"`
	Partition unitname.PartitionName `json:"partition,omitempty"`
}

// newStamp returns the stamp of a file that is written now.
func newStamp(partition unitname.PartitionName) stamp { return stamp{stateVersion, partition} }

// check returns an error if the file is not one of the partition, or if a later version of the
// program has written it.
func (s stamp) check(partition unitname.PartitionName) error {
	if s.Version == 0 && s.Partition == "" {
		//guard: a state file without a version is one of the system partition
		s.Partition = unitname.First
	}
	switch {
	//guard: a state file of a later version is dropped
	case s.Version < 0 || s.Version > stateVersion:
		return fmt.Errorf("version %d is not known, only versions up to %d are: it is ignored", s.Version, stateVersion)
	//guard: a state file of another partition is dropped
	case s.Partition != partition:
		return fmt.Errorf("it is of partition %q, and not of %q: it is ignored", s.Partition, partition)
	}
	return nil
}

// readState reads a state file of a partition into v. It changes nothing if there is no file, or if
// the stamp of the file does not fit the partition.
func readState(path string, v any, partition unitname.PartitionName) error {
	var content json.RawMessage
	err := statefile.Read(path, &content)
	var file *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.As(err, &file):
		return fmt.Errorf("state of evictions: %w", err)
	}
	var s stamp
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err == nil {
		err = s.check(partition)
	}
	if err == nil {
		err = json.Unmarshal(content, v)
	}
	if err != nil {
		return fmt.Errorf("state of evictions: %s: %w; remove it", path, err)
	}
	return nil
}

// writeState replaces a state file.
func writeState(path string, v any) error {
	if err := statefile.Write(path, v, 0o600); err != nil {
		return fmt.Errorf("state of evictions: %w", err)
	}
	return nil
}
