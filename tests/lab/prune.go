package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// unusedAge is the age at which an unused entry is removed. It is far longer than any node lives,
// because a node needs its image when it reboots.
const unusedAge = 3 * 24 * time.Hour

// used records that an entry is in use.
func used(entry string) error {
	now := time.Now()
	if err := os.Chtimes(entry, now, now); err != nil {
		return fmt.Errorf("cache entry %s: %w", entry, err)
	}
	return nil
}

// artifactsAge is the age at which artifacts of a failure are removed.
const artifactsAge = 14 * 24 * time.Hour

// prune removes entries that have long been unused, because each change of the lab's declarations
// makes new ones. It also removes leftovers of killed builds, and old artifacts. It keeps the
// inputs of this tree's flavours and control planes, however old, and entries that a process is
// making.
func (c cache) prune() error {
	keep, err := c.current()
	if err != nil {
		return err
	}
	var failed []error
	for _, kind := range []string{"debian", "programs", "images", "snapshots", "kvm", "etcd", "qemu"} {
		failed = append(failed, eachFolder(filepath.Join(c.Dir, kind), func(path string, age time.Duration) error {
			name, _, isPartial := strings.Cut(filepath.Base(path), partialMark)
			if !isPartial && (age < unusedAge || slices.Contains(keep, path)) {
				return nil
			}
			return removeEntry(filepath.Join(filepath.Dir(path), name), path)
		}))
	}
	failed = append(failed, eachFolder(filepath.Join(c.Dir, "artifacts"), func(path string, age time.Duration) error {
		if age < artifactsAge {
			return nil
		}
		return os.RemoveAll(path)
	}))
	return errors.Join(failed...)
}

// current returns the paths of the entries that this tree's flavours and control planes are made
// from, built or not.
func (c cache) current() ([]string, error) {
	sources, err := sourcesDir()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range Flavours() {
		e, err := c.entriesOf(f, sources)
		if err != nil {
			return nil, err
		}
		all = append(all, e.debian, e.image)
		all = append(all, e.programs...)
	}
	key, err := qemuKey("")
	if err != nil {
		return nil, err
	}
	all = append(all, c.path("qemu", qemuRelease, key))
	p := controlPlanePrograms()
	if key, err = programKey(p, sources); err != nil {
		return nil, err
	}
	return append(all, c.path("programs", p.cacheName(), key)), nil
}

// eachFolder calls do for each folder in dir with the time since it was last used.
func eachFolder(dir string, do func(path string, age time.Duration) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.IsDir() {
			continue // a lock, or another process has just removed it
		}
		failed = append(failed, do(filepath.Join(dir, e.Name()), time.Since(info.ModTime())))
	}
	return errors.Join(failed...)
}

// removeEntry removes an entry, or a leftover of its builds, unless a process holds the entry's
// lock.
func removeEntry(entry, path string) error {
	unlock, err := tryLock(entry + ".lock")
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	if err := removePartials(entry); err != nil || path != entry {
		return err
	}
	// Rename first, so that no process takes half an entry for a whole one.
	if err := os.Rename(entry, entry+partialMark); err != nil {
		return err
	}
	return removePartials(entry)
}
