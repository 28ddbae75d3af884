package snapshot

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nodepartition/internal/audit"
	"nodepartition/internal/unitname"
)

// maxDepth bounds the depth of slices. systemd allows any.
const maxDepth = 8

// readCgroups reads all slices, and the scopes of containers.
func (g *gatherer) readCgroups(s *audit.Facts) error {
	return g.walk("", 0, func(cgroup string, container bool) (err error) {
		if s.Cgroups[cgroup], err = g.files(cgroup, names); err != nil || !container {
			return err
		}
		if pid, ok := g.firstProcess(cgroup); ok {
			if score, ok := g.oomScore(pid); ok {
				s.Containers[cgroup] = audit.FirstProcess{PID: pid, OOMScoreAdj: score}
			}
		}
		return nil
	})
}

// readCpusets reads the cpusets of containers.
func (g *gatherer) readCpusets(s *audit.Facts) error {
	return g.walk(unitname.Default.Slice(), 1, func(cgroup string, container bool) (err error) {
		if container {
			s.Cgroups[cgroup], err = g.files(cgroup, cpusets)
		}
		return err
	})
}

// walk visits the slices and the scopes of containers below a cgroup, which is depth slices deep.
// It leaves out what is below the slice of users, and the services.
func (g *gatherer) walk(cgroup string, depth int, visit func(cgroup string, container bool) error) error {
	children, err := g.cgroups.Children(cgroup)
	if err != nil {
		return err
	}
	for _, name := range children {
		below := path.Join(cgroup, name)
		ofPods := below == unitname.Default.Slice() || strings.HasPrefix(below, unitname.Default.Slice()+"/")
		switch {
		case strings.HasSuffix(name, ".slice"):
			if err := visit(below, false); err != nil {
				return err
			}
			if name == "user.slice" || depth == maxDepth {
				continue
			}
			if err := g.walk(below, depth+1, visit); err != nil {
				return err
			}
		case ofPods && unitname.ContainerID(name) != "":
			if err := visit(below, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// cpusets lists the files of a cgroup with its CPUs, and names all that rules are about.
var (
	cpusets = []string{"cpuset.cpus", "cpuset.cpus.effective"}
	names   = append([]string{
		"cpu.weight", "cpu.max", "memory.max", "memory.high", "memory.swap.max", "pids.max",
	}, cpusets...)
)

// files reads files of a cgroup. It leaves out those that do not exist, because their controller is
// off, or because the cgroup is gone.
func (g *gatherer) files(cgroup string, names []string) (audit.Files, error) {
	files := audit.Files{}
	for _, name := range names {
		text, err := g.cgroups.ReadFile(cgroup, name)
		switch {
		case err == nil:
			files[name] = strings.TrimSpace(string(text))
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV):
			return nil, err
		}
	}
	return files, nil
}

// firstProcess returns the first process in a container's scope: the container's own process, which
// is older than those that exec starts. crun has it in a cgroup below the scope.
func (g *gatherer) firstProcess(cgroup string) (pid int, ok bool) {
	text, err := g.cgroups.ReadFile(cgroup, "cgroup.procs")
	if err != nil {
		return 0, false
	}
	if first, _, _ := strings.Cut(string(text), "\n"); first != "" {
		pid, err := strconv.Atoi(first)
		return pid, err == nil && pid > 0
	}
	children, err := g.cgroups.Children(cgroup)
	if err != nil || len(children) == 0 {
		return 0, false
	}
	return g.firstProcess(path.Join(cgroup, children[0]))
}
