package slices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// StateDir is where the output of this boot is kept, below the root.
const StateDir = "/run/node-partition"

// Output writes plans for systemd to read.
//
// systemd reads a generator's directory file by file, so a run that is killed half-way would leave half a
// partition. Therefore the files are not in that directory. They are in one directory of ours, units/ below
// State, and what stands in the generator's directory are links to them, made while units/ is not there. Links
// into nowhere bring systemd no unit and no setting, only a notice in the journal (tests/e2e shows it for 252 and
// 257). The rename of the complete directory to units/ is the one step that makes the whole set valid.
//
// The same directory is the last good output of this boot: a broken configuration links to it once more.
//
//	State/units.new   being written
//	State/units.old   what was valid before, while the links are made
//	State/units       valid
type Output struct {
	// Dir is the generator's "normal" directory, its first argument (systemd.generator(7)).
	Dir string
	// State is the directory for StateDir; on a tmpfs, for it must not outlive the boot.
	State string
}

const (
	unitsDir = "units"
	newDir   = "units.new"
	oldDir   = "units.old"
	lockFile = "lock"
)

// applyFlag is the file beside the units whose presence starts ApplyService, which removes it. Being beside them it
// becomes valid with them.
const applyFlag = ".apply"

// committed returns the files of the valid output, by path; none where there is no such output.
func committed(state string) (map[string]string, error) {
	for _, dir := range []string{unitsDir, oldDir} {
		dir = filepath.Join(state, dir)
		names, err := fileNames(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		files := map[string]string{}
		for _, name := range names {
			data, readErr := os.ReadFile(filepath.Join(dir, name))
			err = errors.Join(err, readErr)
			files[name] = string(data)
		}
		if err != nil {
			return nil, fmt.Errorf("last output: %w", err)
		}
		return files, nil
	}
	return nil, nil
}

// Write makes the units of the plan the valid output. A plan without units removes what was there.
func (o Output) Write(plan *Plan) error {
	if len(plan.Units) == 0 {
		return o.clear()
	}
	unlock, err := o.lock()
	if err != nil {
		return err
	}
	defer unlock()
	staged := filepath.Join(o.State, newDir)
	if err := os.RemoveAll(staged); err != nil {
		return fmt.Errorf("left over from an earlier run: %w", err)
	}
	if err := os.Mkdir(staged, 0o755); err != nil {
		return fmt.Errorf("writing units: %w", err)
	}
	names := make([]string, 0, len(plan.Units))
	for _, u := range plan.Units {
		if err := writeFile(filepath.Join(staged, u.Path), u.Content); err != nil {
			return fmt.Errorf("writing units: %w", err)
		}
		names = append(names, u.Path)
	}
	if plan.Apply {
		if err := writeFile(filepath.Join(staged, applyFlag), ""); err != nil {
			return fmt.Errorf("writing units: %w", err)
		}
	}
	return o.commit(newDir, names)
}

// Restore makes the last valid output of this boot valid again. It reports whether there was one.
func (o Output) Restore() (bool, error) {
	unlock, err := o.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	// A run that was killed between its two renames has left the last output under its other name.
	from := unitsDir
	if _, err := os.Stat(filepath.Join(o.State, from)); errors.Is(err, fs.ErrNotExist) {
		from = oldDir
	}
	names, err := fileNames(filepath.Join(o.State, from))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("last output: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == applyFlag })
	return true, o.commit(oldDir, names)
}

// commit makes links for the files names and then renames the directory from, which holds them, to units/. If
// from is units.old, units/ itself takes that name first.
func (o Output) commit(from string, names []string) error {
	valid, old := filepath.Join(o.State, unitsDir), filepath.Join(o.State, oldDir)
	switch _, err := os.Lstat(valid); {
	case err == nil:
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("left over from an earlier run: %w", err)
		}
		if err := os.Rename(valid, old); err != nil {
			return fmt.Errorf("setting the last output aside: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("last output: %w", err)
	}
	err := o.link(names)
	if err != nil {
		// What can be made whole again is what was valid; the links to it are not complete, and systemd must not
		// read half of them.
		return errors.Join(err, o.unlink(names))
	}
	if err := os.Rename(filepath.Join(o.State, from), valid); err != nil {
		return errors.Join(fmt.Errorf("making the units valid: %w", err), o.unlink(names))
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("after writing units: %w", err)
	}
	return nil
}

// link makes the links in the generator's directory.
func (o Output) link(names []string) error {
	for _, name := range names {
		path, target := filepath.Join(o.Dir, name), filepath.Join(o.State, unitsDir, name)
		if dir := filepath.Dir(path); dir != o.Dir {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("writing to the generator directory: %w", err)
			}
		}
		err := os.Symlink(target, path)
		if errors.Is(err, fs.ErrExist) {
			if have, _ := os.Readlink(path); have == target {
				continue // a directory that was not emptied, unlike systemd's
			}
			return fmt.Errorf("%s: made by something else already; remove what makes it, or partition-generator", path)
		}
		if err != nil {
			return fmt.Errorf("writing to the generator directory: %w", err)
		}
	}
	return nil
}

// unlink removes the links to our files.
func (o Output) unlink(names []string) error {
	var errs []error
	for _, name := range names {
		path := filepath.Join(o.Dir, name)
		if have, err := os.Readlink(path); err != nil || have != filepath.Join(o.State, unitsDir, name) {
			continue
		}
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}

// clear removes all output of this boot, so that a configuration that breaks later does not bring back a
// partition that was switched off.
func (o Output) clear() error {
	if _, err := os.Lstat(o.State); errors.Is(err, fs.ErrNotExist) {
		return nil // nothing ever written: leave no trace
	}
	unlock, err := o.lock()
	if err != nil {
		return err
	}
	defer unlock()
	valid, trash := filepath.Join(o.State, unitsDir), filepath.Join(o.State, newDir)
	for _, dir := range []string{filepath.Join(o.State, oldDir), trash} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing the last output: %w", err)
		}
	}
	// Renamed first: half of units/ must never be taken for the last output.
	if err := os.Rename(valid, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the last output: %w", err)
	}
	if err := os.RemoveAll(trash); err != nil {
		return fmt.Errorf("removing the last output: %w", err)
	}
	return nil
}

// lock makes State and keeps other runs out of it, an operator's by hand for instance. It waits for a run that
// takes milliseconds; when that one dies, the kernel opens its lock.
func (o Output) lock() (unlock func(), err error) {
	if err := os.MkdirAll(o.State, 0o755); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(o.State, lockFile), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	for {
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			if err != nil {
				_ = file.Close()
				return nil, fmt.Errorf("state directory: locking %s: %w", file.Name(), err)
			}
			return func() { _ = file.Close() }, nil
		}
	}
}

// fileNames returns the files below dir, relative to it and sorted.
func fileNames(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		names = append(names, strings.TrimPrefix(path, dir+"/"))
		return nil
	})
	slices.Sort(names)
	return names, err
}

func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
