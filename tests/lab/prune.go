package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// unusedAge is how long an entry that nothing uses is kept. It is far longer than any node lives, because a
// node needs its image when it reboots.
const unusedAge = 3 * 24 * time.Hour

// used notes that an entry is in use.
func used(entry string) error {
	now := time.Now()
	if err := os.Chtimes(entry, now, now); err != nil {
		return fmt.Errorf("cache entry %s: %w", entry, err)
	}
	return nil
}

// prune removes the entries of a kind and name that have not been used for long: each change of the lab's
// declarations makes new ones. It leaves alone what is being built.
func (c Cache) prune(kind, name string) error {
	entries, err := filepath.Glob(c.Path(kind, name, "*"))
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		info, err := os.Stat(e)
		if err != nil || !info.IsDir() || strings.HasSuffix(e, ".partial") || time.Since(info.ModTime()) < unusedAge {
			continue
		}
		// An entry that is whole is not being built: this is what a killed prune left.
		failed = append(failed, os.RemoveAll(e+".partial"))
		// First out of the way, so that nobody takes half an entry for whole.
		if err := os.Rename(e, e+".partial"); err != nil {
			failed = append(failed, err)
			continue
		}
		failed = append(failed, os.RemoveAll(e+".partial"))
	}
	return errors.Join(failed...)
}
