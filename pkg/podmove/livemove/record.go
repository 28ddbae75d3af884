package livemove

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"nodepartition/internal/statefile"
)

// record is what somebody needs to know to finish a move that was killed on the way. It is there from before the first
// process is moved until the last one is; the state directory is on a tmpfs and forgets it with the boot, as the kernel does.
type record struct {
	// Scope is what is emptied, and Cgroup its path.
	Scope  string `json:"scope"`
	Cgroup string `json:"cgroup"`
	// NewCgroup is the path of the scope that takes over.
	NewCgroup string `json:"newCgroup"`
	// Controls and Owner are what that is to get when it is there.
	Controls []control `json:"controls"`
	Owner    owner     `json:"owner"`
}

const recordSuffix = ".json"

// write puts the record into dir, whole or not at all.
func (r record) write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return statefile.Write(filepath.Join(dir, r.Scope+recordSuffix), r, 0o600)
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
		err := statefile.Read(name, &r)
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
