package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// This file writes and reads files of JSON. A reader gets the old content or the new one,
// at whatever time it reads and at whatever time the writer is killed.

// WriteState replaces the file at path with v as one line of JSON. The folder has to exist. It
// does not synchronise the file with a disk: most state files are on a tmpfs. There must be one
// writer at a time.
//
// The temporary file always has the same name, so a program that is killed again and again leaves
// one of them. The next call overwrites it.
func WriteState(path string, v any, mode fs.FileMode) error { return write(path, v, mode, 0) }

// WriteStateDisk is WriteState for a file on a disk: after a power loss it has the old content or
// the new one.
func WriteStateDisk(path string, v any, mode fs.FileMode) error {
	return write(path, v, mode, os.O_SYNC)
}

func write(path string, v any, mode fs.FileMode, flag int) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	temporary := temporaryName(path)
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|flag, mode)
	if err == nil {
		_, err = file.Write(append(data, '\n'))
		err = errors.Join(err, file.Close())
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // where there is one
	}
	return err
}

// ReadState decodes the file at path into v. An error about the file is an *fs.PathError. Every
// other error is about its content and does not name the file.
func ReadState(path string, v any) error {
	data, err := read(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// maxBytes bounds a state file: a pod's has a few hundred bytes.
const maxBytes = 16 << 20

// read reads a file, which in an unpacked archive may be anything.
func read(path string) ([]byte, error) {
	//guard: a state file that is none is not waited for
	data, err := Root("").ReadFile(path, maxBytes)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.Unwrap(err)}
	}
	return data, nil
}

// ErrStateVersion means that another version of the program has written a file.
var ErrStateVersion = errors.New("another version of the program has written it")

// ReadStateVersion is ReadState for a file that names its version: DecodeState has the rest.
func ReadStateVersion(path string, known int, v any) error {
	data, err := read(path)
	if err != nil {
		return err
	}
	return DecodeState(data, known, v)
}

// DecodeState decodes the content of a file into v. It returns ErrStateVersion for another version
// than known, whose fields may have other types: nothing else of it is decoded.
func DecodeState(data []byte, known int, v any) error {
	var stamp struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &stamp); err != nil {
		return err
	}
	//guard: a state file of another version is not guessed at
	if stamp.Version != known {
		return fmt.Errorf("%w: it has version %d, and this program reads version %d", ErrStateVersion, stamp.Version, known)
	}
	return json.Unmarshal(data, v)
}

// temporaryName returns a hidden name with another suffix than path, so that readers of all files
// of a folder ignore it.
func temporaryName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}
