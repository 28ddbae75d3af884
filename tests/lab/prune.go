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

// artifactsAge is how long what explains a failure is kept.
const artifactsAge = 14 * 24 * time.Hour

// prune removes the entries that have not been used for long, because each change of the lab's declarations makes new
// ones, what killed builds have left, and old artifacts. What the flavours and control planes of this tree are made from
// stays, however old, and so does what somebody is making.
func (c Cache) prune() error {
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

// current returns the entries that the flavours and control planes of this tree are made from, whether they are there or
// not.
func (c Cache) current() ([]string, error) {
	sources, err := sourcesDir()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range Flavours() {
		key, err := debianKey(f)
		if err != nil {
			return nil, err
		}
		debian := c.Path("debian", f.Release, key)
		var binaries []string
		for _, p := range f.allPrograms() {
			if key, err = programKey(p, sources); err != nil {
				return nil, err
			}
			binaries = append(binaries, c.Path("programs", p.Name, key))
		}
		if key, err = imageKey(f, debianTar(debian), binaries); err != nil {
			return nil, err
		}
		all = append(all, debian, c.Path("images", f.Name, key))
		all = append(all, binaries...)
	}
	key, err := qemuKey()
	if err != nil {
		return nil, err
	}
	all = append(all, c.Path("qemu", qemuRelease, key))
	p := controlPlanePrograms()
	if key, err = programKey(p, sources); err != nil {
		return nil, err
	}
	return append(all, c.Path("programs", p.Name, key)), nil
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
			continue // a lock, or somebody else has just removed it
		}
		failed = append(failed, do(filepath.Join(dir, e.Name()), time.Since(info.ModTime())))
	}
	return errors.Join(failed...)
}

// removeEntry removes an entry or what was to become one, unless somebody holds the entry's lock.
func removeEntry(entry, path string) error {
	unlock, err := tryLock(entry + ".lock")
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	if err := removePartials(entry); err != nil || path != entry {
		return err
	}
	// First out of the way, so that nobody takes half an entry for whole.
	if err := os.Rename(entry, entry+partialMark); err != nil {
		return err
	}
	return removePartials(entry)
}
