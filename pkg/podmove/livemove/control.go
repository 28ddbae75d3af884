package livemove

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// controlFiles lists the files of a cgroup that limit the processes in it, as patterns. systemd has
// a property for most of them. A runtime writes the file as well, and writes what systemd cannot
// express: values of cpu.max other than whole percents, cpu.max.burst, hugetlb, rdma,
// memory.oom.group on systemd 252, and the "unified" section of a container's configuration.
var controlFiles = []string{
	"cpu.idle", "cpu.weight", "cpu.max", "cpu.max.burst", "cpu.uclamp.min", "cpu.uclamp.max",
	"cpuset.mems", "cpuset.cpus",
	"hugetlb.*.max",
	"io.max", "io.weight", "io.bfq.weight", "io.latency",
	"memory.oom.group", "memory.min", "memory.low", "memory.high", "memory.max",
	"memory.swap.high", "memory.swap.max", "memory.zswap.max", "memory.zswap.writeback",
	"misc.max", "pids.max", "rdma.max",
	"cgroup.max.depth", "cgroup.max.descendants", "cgroup.pressure",
}

// control is the content of a control file.
type control struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

// readControls reads the control files that a cgroup has. It reads the directory only for the sizes
// of huge pages.
func (m Mover) readControls(cgroup string) ([]control, error) {
	var names []string
	for _, pattern := range controlFiles {
		if !strings.Contains(pattern, "*") {
			names = append(names, pattern)
			continue
		}
		entries, err := os.ReadDir(m.dir(cgroup))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if ok, _ := path.Match(pattern, e.Name()); ok { // the patterns are valid
				names = append(names, e.Name())
			}
		}
	}
	return m.readNamed(cgroup, names)
}

// readNamed reads the files that exist.
func (m Mover) readNamed(cgroup string, names []string) ([]control, error) {
	var all []control
	for _, name := range names {
		text, err := m.Cgroups.ReadFile(cgroup, name)
		if absent(err) {
			continue // there is no such controller, or it was disabled
		}
		if err != nil {
			return nil, err
		}
		value := strings.TrimSpace(string(text))
		if name == "cpu.weight" && value == "0" {
			continue // this means cpu.idle, and cannot be written
		}
		all = append(all, control{name, value})
	}
	if len(all) > 0 {
		return all, nil
	}
	// Of a cgroup that is gone no controller lacks.
	_, err := os.Stat(m.dir(cgroup))
	return nil, err
}

// difference returns the writes that turn the controls have into want. It leaves out files that are
// not in have: the parent of that cgroup does not give it the controller.
func difference(want, have []control) []control {
	var out []control
	for _, w := range want {
		i := slices.IndexFunc(have, func(h control) bool { return h.File == w.File })
		if i < 0 || have[i].Value == w.Value {
			continue
		}
		present := slices.Collect(strings.Lines(have[i].Value + "\n"))
		for line := range strings.Lines(w.Value + "\n") {
			// Files with a line for each device take one line for each write.
			if !slices.Contains(present, line) {
				out = append(out, control{w.File, strings.TrimSpace(line)})
			}
		}
	}
	return out
}

// writeControls changes the control files of a cgroup to want.
func (m Mover) writeControls(cgroup string, want []control) error {
	names := make([]string, 0, len(want))
	for _, w := range want {
		names = append(names, w.File)
	}
	have, err := m.readNamed(cgroup, names)
	if err != nil {
		return err
	}
	if lacking := lackingControllers(want, have); len(lacking) > 0 {
		if err := m.enable(cgroup, lacking); err != nil {
			return err
		}
		if have, err = m.readNamed(cgroup, names); err != nil {
			return err
		}
	}
	var all []error
	for _, d := range difference(want, have) {
		if err := writeFile(filepath.Join(m.dir(cgroup), d.File), d.Value); err != nil && !absent(err) {
			all = append(all, fmt.Errorf("writing %q: %w", d.Value, err))
		}
	}
	return errors.Join(all...)
}

// lackingControllers returns the controllers that limit something in want and that have no file in
// have.
func lackingControllers(want, have []control) []string {
	var out []string
	for _, w := range want {
		switch controller, _, _ := strings.Cut(w.File, "."); {
		case controller == "cgroup" || w.Value == "" || w.Value == "max" || slices.Contains(out, controller):
		case slices.ContainsFunc(have, func(h control) bool { return h.File == w.File }):
		default:
			out = append(out, controller)
		}
	}
	return out
}

// enable gives a cgroup controllers that systemd does not manage: hugetlb, rdma, misc. runc does so
// for its containers (CreateCgroupPath, opencontainers/cgroups fs2/create.go).
func (m Mover) enable(cgroup string, controllers []string) error {
	parents := []string{"."}
	for dir := filepath.Dir(cgroup); dir != "."; dir = filepath.Dir(dir) {
		parents = slices.Insert(parents, 1, dir)
	}
	for _, dir := range parents {
		value := "+" + strings.Join(controllers, " +")
		if err := writeFile(filepath.Join(m.dir(dir), "cgroup.subtree_control"), value); err != nil {
			return fmt.Errorf("enabling controllers: writing %q: %w", value, err)
		}
	}
	return nil
}

// writeFile writes to an existing file.
func writeFile(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

// absent reports whether a file or its cgroup is gone.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
