package slices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/pkg/slices/config"
	"node-partition.io/node-partition/pkg/slices/decision"
)

// generatorDir is the first of the three directories that systemd passes to a generator, below the
// root (systemd.generator(7)). systemd reads units from it.
const generatorDir = "/run/systemd/generator"

// Output writes plans for systemd to read.
//
// systemd reads a generator's directory file by file, so a run that is killed half-way would leave
// half a partition. Therefore the files are not in that directory. They are in one directory of
// ours, units/ below StateDir. The generator's directory has links to them, made while units/ does
// not exist. A dangling link brings systemd no unit and no setting, only a notice in the journal
// (252 and 257, see tests/e2e). The rename of the complete directory to units/ is the one step that
// makes the whole set valid.
//
// The decision for the monitor is beside the units (pkg/slices/decision), and valid with them.
//
// The same directory is the last good output of this boot. After a broken configuration the links
// lead to it again.
//
//	StateDir/units.new   being written
//	StateDir/units.old   the previous valid output, while the links are made
//	StateDir/units       valid
//
// If StateDir cannot be written, WritePlain writes the files themselves. A security policy that
// lets generators write only into their own directories has that effect. Then nothing is kept from
// one run to the next.
//
// systemd runs generators one reload at a time, and no other program writes here. A run with
// another directory than systemd's, by systemd-analyze verify or by a curious operator, writes
// plain files and leaves the valid output alone.
type Output struct {
	root  string
	dir   string
	state string // empty for a directory that is not systemd's
}

// NewOutput returns the output of a generator whose first argument is dir, for the node at root.
func NewOutput(root, dir string) Output {
	o := Output{root: root, dir: filepath.Clean(dir)}
	if o.dir == filepath.Join("/", root, generatorDir) {
		o.state = filepath.Join("/", root, config.StateDir)
	}
	return o
}

// SystemdOutput returns the output that systemd reads, for the node at root.
func SystemdOutput(root string) Output {
	return NewOutput(root, filepath.Join("/", root, generatorDir))
}

// IsSystemds reports whether systemd reads the output. The state of the node is not changed for any
// other.
func (o Output) IsSystemds() bool { return o.state != "" }

const (
	unitsDir = "units"
	newDir   = "units.new"
	oldDir   = "units.old"
)

// applyFlag is a file beside the units. Its presence starts ApplyService, which removes it. The
// rename that makes the units valid makes the flag valid too.
const applyFlag = ".apply"

const validFlag = config.StateDir + "/" + unitsDir + "/" + applyFlag

const maxUnitBytes = 64 << 10

// kept returns the content of those files of the valid output that are listed in names, by name.
func (o Output) kept(names []string) (map[string]string, error) {
	kept := map[string]string{}
	if o.state == "" {
		return kept, nil
	}
	last := o.last()
	for _, name := range names {
		data, err := host.Root("").ReadFile(filepath.Join(last, name), maxUnitBytes)
		switch {
		case err == nil:
			kept[name] = string(data)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("last output: %w", err)
		}
	}
	return kept, nil
}

// names returns the partitions known, and after them those that an output of this boot was for: by
// the drop-ins of their slices, which stay for the rest of the boot. A slice that another program
// has made, under a name that a partition could have, is not among them.
func (o Output) names(known []partition.Name) ([]partition.Name, error) {
	if o.state == "" {
		return known, nil
	}
	folders, err := os.ReadDir(o.last())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("last output: %w", err)
	}
	names := slices.Clone(known)
	add := func(name partition.Name) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, folder := range folders {
		slice, isDropins := strings.CutSuffix(folder.Name(), ".d")
		//guard: a slice of a name that no output was for is somebody else's
		if name, ok := partition.ParseSlice(slice); isDropins && ok && name != partition.Default {
			add(name)
		}
	}
	return names, nil
}

// source returns the file from which a unit of the valid output was made, empty if there is none.
func (o Output) source(name string) string {
	kept, err := o.kept([]string{name})
	if err != nil {
		return "" // the warning about the others says so
	}
	for line := range strings.Lines(kept[name]) {
		if source, ok := strings.CutPrefix(line, "SourcePath="); ok {
			return strings.TrimSuffix(source, "\n")
		}
	}
	return ""
}

// last returns the directory of the last output, which need not exist. If a run was killed between
// its two renames, the output is in units.old.
func (o Output) last() string {
	valid := filepath.Join(o.state, unitsDir)
	if _, err := os.Lstat(valid); errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(o.state, oldDir)
	}
	return valid
}

// Write makes the units of the plan the valid output. A plan without units, and with nothing to
// decide, writes nothing on a node that has no output of this boot. Elsewhere a monitor may run,
// and follows the decision that there is no partition.
func (o Output) Write(plan *Plan) error {
	if o.state == "" {
		return writeUnits(o.dir, plan.Units)
	}
	if len(plan.Units) == 0 && len(plan.Decision.Partitions) == 0 && plan.Decision.ManagedByKubelet == "" {
		//guard: a node without a partition has no output
		if _, err := os.Lstat(o.last()); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	//guard: the size of the memory is kept before the units
	if err := o.keepMemory(plan); err != nil {
		return err
	}
	staged := filepath.Join(o.state, newDir)
	if err := os.RemoveAll(staged); err != nil {
		return fmt.Errorf("left over from an earlier run: %w", err)
	}
	if err := writeUnits(staged, plan.Units); err != nil {
		return err
	}
	if err := writeDecision(staged, plan); err != nil {
		return err
	}
	if plan.Apply {
		if err := writeFile(filepath.Join(staged, applyFlag), ""); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(plan.Units))
	for _, u := range plan.Units {
		names = append(names, u.Path)
	}
	return o.commit(newDir, names)
}

// WritePlain writes the units of the plan as files into the generator's directory. It is for use
// after Write and Restore have failed and have left at most their own links there.
func (o Output) WritePlain(plan *Plan) error {
	if o.state == "" {
		return nil // Write has done so
	}
	var all []string
	for _, u := range plan.Units {
		all = append(all, u.Path)
	}
	if err := o.unlink(all); err != nil {
		return fmt.Errorf("writing to the generator directory: %w", err)
	}
	for _, name := range all {
		path := filepath.Join(o.dir, name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s: %w", path, ErrConflict)
		}
	}
	for _, u := range plainOrder(plan.Units) {
		// The flag of ApplyPath moves to a directory that can be written.
		content := strings.ReplaceAll(u.Content, validFlag, generatorDir+"/"+applyFlag)
		if err := writeFile(filepath.Join(o.dir, u.Path), content); err != nil {
			return err
		}
	}
	if err := writeDecision(o.dir, plan); err != nil {
		return err
	}
	if plan.Apply {
		return writeFile(filepath.Join(o.dir, applyFlag), "")
	}
	return nil
}

// ErrConflict means that another generator has made a file with the name of ours.
var ErrConflict = errors.New("made by something else already; remove what makes it, or partition-generator")

// plainOrder sorts units that start others to the end. A run that is killed then leaves slices that
// no unit starts, and not a drop-in that starts slices without limits.
func plainOrder(units []UnitFile) []UnitFile {
	starts := func(u UnitFile) int {
		starts := strings.Contains(u.Content, "\nWants=") || strings.Contains(u.Content, "\nUpholds=")
		if starts && !strings.HasSuffix(u.Path, ".slice") {
			return 1
		}
		return 0
	}
	ordered := slices.Clone(units)
	slices.SortStableFunc(ordered, func(a, b UnitFile) int { return starts(a) - starts(b) })
	return ordered
}

// Restore makes the last valid output of this boot valid again. It returns the paths of its units;
// none if there was no such output. apply sets the flag, because systemd may have lost these units
// since.
func (o Output) Restore(apply bool) ([]string, error) {
	names, err := o.Last()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	if apply {
		// A failure here is not fatal: without the flag the units are of less use, but still of some.
		err = writeFile(filepath.Join(o.last(), applyFlag), "")
	}
	return names, errors.Join(err, o.commit(oldDir, names))
}

// Last returns the paths of the units of the last valid output of this boot; none without one.
func (o Output) Last() ([]string, error) {
	if o.state == "" {
		return nil, nil
	}
	names, err := fileNames(o.last())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("last output: %w", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == applyFlag || name == decision.FileName }), nil
}

// commit makes links for the files names. Then it renames the directory from, which holds the
// files, to units/. If from is units.old, units/ itself takes that name first.
func (o Output) commit(from string, names []string) error {
	valid, old := filepath.Join(o.state, unitsDir), filepath.Join(o.state, oldDir)
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
	//guard: links are made before the rename that makes them valid
	err := o.link(names)
	if err != nil {
		// Only the previous output can be made whole again. The links to it are incomplete, and systemd
		// must not read half of them.
		return errors.Join(err, o.unlink(names))
	}
	if err := os.Rename(filepath.Join(o.state, from), valid); err != nil {
		return errors.Join(fmt.Errorf("making the units valid: %w", err), o.unlink(names))
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("after writing units: %w", err)
	}
	return nil
}

func (o Output) link(names []string) error {
	for _, name := range names {
		path, target := filepath.Join(o.dir, name), filepath.Join(o.state, unitsDir, name)
		err := os.Symlink(target, path)
		if dir := filepath.Dir(path); dir != o.dir && errors.Is(err, fs.ErrNotExist) {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("writing to the generator directory: %w", err)
			}
			err = os.Symlink(target, path)
		}
		if errors.Is(err, fs.ErrExist) {
			if have, _ := os.Readlink(path); have == target {
				continue // a directory that was not emptied, unlike systemd's
			}
			return fmt.Errorf("%s: %w", path, ErrConflict)
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
		path := filepath.Join(o.dir, name)
		if have, err := os.Readlink(path); err != nil || have != filepath.Join(o.state, unitsDir, name) {
			continue
		}
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
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

func writeUnits(dir string, units []UnitFile) error {
	for _, u := range units {
		if err := writeFile(filepath.Join(dir, u.Path), u.Content); err != nil {
			return err
		}
	}
	return nil
}

// writeDecision writes the decision of the plan into the directory of its units.
func writeDecision(dir string, plan *Plan) error {
	text, err := plan.Decision.Text()
	if err != nil {
		return fmt.Errorf("writing units: %w", err)
	}
	return writeFile(filepath.Join(dir, decision.FileName), text)
}

// writeFile writes a file, and makes its folder if it is missing.
func writeFile(path, content string) error {
	err := os.WriteFile(path, []byte(content), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
	}
	if err != nil {
		return fmt.Errorf("writing units: %w", err)
	}
	return nil
}
