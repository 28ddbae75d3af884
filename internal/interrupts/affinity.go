package interrupts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/oneline"
	"nodepartition/internal/statefile"
	"nodepartition/pkg/slices/config"
)

const (
	// DefaultAffinity has the mask of the CPUs for interrupts that are new.
	DefaultAffinity = "/proc/irq/default_smp_affinity"
	// stateFile has what was found there, for as long as something else is written.
	stateFile = config.StateDir + "/interrupts.json"
	// maxBytes bounds the files that are read here. The longest mask has 2303 characters.
	maxBytes = 64 << 10
)

// record holds what was found in DefaultAffinity, and what was written there.
type record struct {
	// Found is the value before the first write, which is put back in the end.
	Found string `json:"found"`
	// Wrote lists values of ours: the last, and the one before it, which is in place if the run that
	// recorded the last was killed before it wrote.
	Wrote []string `json:"wrote"`
}

// step lists what one run does with DefaultAffinity, in the order of the fields. A run that is
// killed in between leaves what the next one takes up.
type step struct {
	// save is the new record; nil for the one that there is.
	save *record
	// write is the new value; empty for the present one.
	write string
	// forget means that the record ends.
	forget bool
	// note is for the operator; empty for nothing to say.
	note string
}

// next decides what to do with the value of DefaultAffinity. keep holds the CPUs that interrupts
// are kept off: none puts back what was found. An interrupt needs an online CPU.
func next(current string, saved *record, keep, online cpuset.CPUSet) (step, error) {
	present, err := ParseMask(current)
	if err != nil {
		return step{}, fmt.Errorf("%s: %s: %w", DefaultAffinity, oneline.Quote(current), err)
	}
	ours, found := false, current
	if saved != nil {
		if ours = saved.has(present); ours || keep.IsEmpty() {
			found = saved.Found
		}
	}
	switch {
	case keep.IsEmpty() && saved == nil:
		return step{}, nil
	//guard: a default affinity that something else has written is not put back
	case keep.IsEmpty() && !ours:
		return step{forget: true, note: fmt.Sprintf("%s: is %s, which something else has written since; leaving it. It was %s before %s",
			DefaultAffinity, current, saved.Found, setting)}, nil
	case keep.IsEmpty():
		return step{write: found, forget: true}, nil
	case !ours && present.Intersection(keep).IsEmpty():
		return step{}, nil // as it was, or as something else wants it
	}
	value := without(found, keep)
	left, err := ParseMask(value)
	switch {
	case err != nil:
		return step{}, fmt.Errorf("%s: %s: %w", stateFile, oneline.Quote(found), err)
	//guard: an interrupt has an online CPU
	case left.Intersection(online).IsEmpty():
		return step{}, fmt.Errorf("%s: %s: without the CPUs %s it has no online CPU: leaving %s; want another irqaffinity= on the kernel "+
			"command line, or another cpuset", DefaultAffinity, found, keep, current)
	case left.Equals(present):
		return step{}, nil
	}
	s := step{save: &record{Found: found, Wrote: []string{value}}, write: value}
	//guard: the value before a write is known as ours if the write did not happen
	if ours {
		s.save.Wrote = append(s.save.Wrote, current)
	}
	return s, nil
}

// setting is the setting that this package is for, as people know it.
const setting = "IRQ_CPUS"

// has reports whether a value is one that was found, or that was written here. The kernel may write
// a mask with another number of digits.
func (r *record) has(cpus cpuset.CPUSet) bool {
	for _, mask := range append([]string{r.Found}, r.Wrote...) {
		if known, err := ParseMask(mask); err == nil && known.Equals(cpus) {
			return true
		}
	}
	return false
}

// SetDefault keeps interrupts that are new off CPUs. With none to keep off it puts back exactly
// what it has found, unless something else has written another value since. The note says that.
func SetDefault(root string, keep, online cpuset.CPUSet) (note string, err error) {
	saved, err := readRecord(root)
	if err != nil || saved == nil && keep.IsEmpty() {
		return "", err
	}
	data, err := hostfs.FS(root).ReadFile(DefaultAffinity, maxBytes)
	if err != nil {
		return "", err
	}
	s, err := next(strings.TrimSpace(string(data)), saved, keep, online)
	if err != nil {
		return "", err
	}
	return s.note, s.take(root)
}

// at returns the path of a file of the node. None of them is behind a link of somebody else.
func at(root, name string) string { return filepath.Join("/", root, name) }

// readRecord returns the record, nil without one.
func readRecord(root string) (*record, error) {
	var r record
	err := statefile.Read(at(root, stateFile), &r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w; remove it, and write to %s what is to be there without %s", stateFile, err, DefaultAffinity, setting)
	}
	return &r, nil
}

func (s step) take(root string) error {
	if s.save != nil {
		err := os.MkdirAll(at(root, config.StateDir), 0o755)
		if err == nil {
			err = statefile.Write(at(root, stateFile), s.save, 0o644)
		}
		if err != nil {
			return fmt.Errorf("recording what %s was: %w", DefaultAffinity, err)
		}
	}
	if s.write != "" {
		if err := writeMask(at(root, DefaultAffinity), s.write); err != nil {
			return err
		}
	}
	if s.forget {
		return os.Remove(at(root, stateFile))
	}
	return nil
}

// writeMask writes a mask in one write(2), as the kernel wants it.
func writeMask(path, mask string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(mask + "\n")
	return errors.Join(err, file.Close())
}
