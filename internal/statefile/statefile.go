// Package statefile writes and reads files of JSON. A reader gets the old content or the new one, whenever it reads and whenever the
// writer is killed.
package statefile

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path, whose folder exists, with v as one line of JSON. The file is not synchronised with a disk:
// state files are on a tmpfs. There is one writer at a time.
//
// The temporary file has always the same name, and so a program that is killed again and again leaves one of them. The next Write
// overwrites it.
func Write(path string, v any, mode fs.FileMode) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	temporary := temporaryName(path)
	err = os.WriteFile(temporary, append(data, '\n'), mode)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // where there is one
	}
	return err
}

// Read decodes the file at path into v. An error about the file is an *fs.PathError; every other error is about its content and does
// not name the file.
func Read(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// temporaryName is hidden, and has another suffix than path: readers of all files of a folder pass it over.
func temporaryName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}
