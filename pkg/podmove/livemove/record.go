package livemove

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"node-partition.io/node-partition/internal/host"
)

// record holds what is needed to finish a move that was killed on the way. It exists from before
// the first process is moved until the last one is. The state directory is on a tmpfs and is lost
// at a reboot, as the kernel's state is.
type record struct {
	// Scope is the old scope, which is emptied. Cgroup is its path.
	Scope  string `json:"scope"`
	Cgroup string `json:"cgroup"`
	// NewCgroup is the path of the new scope.
	NewCgroup string `json:"newCgroup"`
	// Controls are written to the new scope once it exists.
	Controls []control `json:"controls"`
}

const recordSuffix = ".json"

// write writes the record into dir, whole or not at all.
func (r record) write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return host.WriteState(filepath.Join(dir, r.Scope+recordSuffix), r, 0o600)
}

func (r record) remove(dir string) error {
	return os.Remove(filepath.Join(dir, r.Scope+recordSuffix))
}

// readRecords returns all records of a directory, and an error for each that is broken.
func readRecords(dir string) ([]record, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	if err != nil {
		return nil, err
	}
	var all []record
	var broken []error
	for _, name := range names {
		var r record
		err := host.ReadState(name, &r)
		if err == nil && r.Scope != strings.TrimSuffix(filepath.Base(name), recordSuffix) {
			err = errors.New("it is of another scope")
		}
		if err != nil {
			broken = append(broken, fmt.Errorf("%s: %w; remove it once no container of the node is frozen", name, err))
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(broken...)
}
