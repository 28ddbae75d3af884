package livemove

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// controlFiles are the files of a cgroup that limit what is in it, as patterns. Of most of them systemd has a property; a
// runtime writes the file as well, and writes what systemd cannot say: other values of cpu.max than whole percents,
// cpu.max.burst, hugetlb, rdma, memory.oom.group on systemd 252, what stands under "unified" in a container's
// configuration.
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

// readControls reads the control files that a cgroup has.
func readControls(dir string) ([]control, error) {
	names, err := controlNames(dir)
	if err != nil {
		return nil, err
	}
	return readNamed(dir, names)
}

// controlNames are the names of control files that a cgroup may have. Only the sizes of huge pages make it read the directory.
func controlNames(dir string) ([]string, error) {
	var names []string
	for _, pattern := range controlFiles {
		if !strings.Contains(pattern, "*") {
			names = append(names, pattern)
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		prefix, suffix, _ := strings.Cut(pattern, "*")
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// readNamed reads those of the files that are there.
func readNamed(dir string, names []string) ([]control, error) {
	d, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	defer d.close()
	var all []control
	for _, name := range names {
		value, err := d.read(name)
		if absent(err) {
			continue // there is no such controller, or it has been taken away
		}
		if err != nil {
			return nil, err
		}
		if name == "cpu.weight" && value == "0" {
			continue // that is cpu.idle, and cannot be written
		}
		all = append(all, control{name, value})
	}
	return all, nil
}

// difference is what is to be written to a cgroup that has the second for it to have the first. Files that it does not have
// are left out: its parent does not give it the controller.
func difference(want, have []control) []control {
	var out []control
	for _, w := range want {
		i := slices.IndexFunc(have, func(h control) bool { return h.File == w.File })
		if i < 0 || have[i].Value == w.Value {
			continue
		}
		present := slices.Collect(strings.Lines(have[i].Value + "\n"))
		for line := range strings.Lines(w.Value + "\n") {
			// Files of several lines, one for each device, take one line for each write.
			if !slices.Contains(present, line) {
				out = append(out, control{w.File, strings.TrimSpace(line)})
			}
		}
	}
	return out
}

// writeControls makes the control files of a cgroup those of want.
func (m Mover) writeControls(cgroup string, want []control) error {
	names := make([]string, 0, len(want))
	for _, w := range want {
		names = append(names, w.File)
	}
	have, err := readNamed(m.dir(cgroup), names)
	if err != nil {
		return err
	}
	if lacking := lackingControllers(want, have); len(lacking) > 0 {
		if err := m.enable(cgroup, lacking); err != nil {
			return err
		}
		if have, err = readNamed(m.dir(cgroup), names); err != nil {
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

// lackingControllers are those that limit something in want and that have does not know.
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

// enable gives a cgroup controllers that systemd does not know and leaves alone: hugetlb, rdma, misc. runc does so for
// its containers (CreateCgroupPath, opencontainers/cgroups fs2/create.go).
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

// writeFile writes to a file that is there.
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

// owner is who a cgroup is delegated to.
type owner struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

func ownerOf(dir string) (owner, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return owner{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, fmt.Errorf("%s: no owner", dir)
	}
	return owner{int(stat.Uid), int(stat.Gid)}, nil
}

// delegate is the kernel's list of the files that belong to whom a cgroup is delegated to.
const delegate = "/sys/kernel/cgroup/delegate"

// chown gives the cgroup dir away as runc does for a container with a user namespace (UnifiedManager.Apply).
func chown(dir string, o owner) error {
	if o == (owner{}) {
		return nil
	}
	list, err := os.Open(delegate)
	if err != nil {
		return err
	}
	defer list.Close()
	if err := os.Chown(dir, o.UID, o.GID); err != nil {
		return err
	}
	for scanner := bufio.NewScanner(list); scanner.Scan(); {
		if err := os.Chown(filepath.Join(dir, scanner.Text()), o.UID, o.GID); err != nil && !absent(err) {
			return err
		}
	}
	return nil
}
