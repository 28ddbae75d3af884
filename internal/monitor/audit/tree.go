package audit

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nodepartition/internal/audit"
	"nodepartition/internal/unitname"
)

// maxDepth bounds the depth of slices. systemd allows any.
const maxDepth = 8

// readCgroups reads all slices, and the scopes of containers. It leaves out what is below the slice
// of users, and the services.
func (g *gatherer) readCgroups(s *audit.Snapshot) error {
	return g.walk(s, "", 0)
}

func (g *gatherer) walk(s *audit.Snapshot, cgroup string, depth int) error {
	children, err := g.cgroups.Children(cgroup)
	if err != nil {
		return err
	}
	for _, name := range children {
		below := path.Join(cgroup, name)
		ofPods := below == unitname.Default.Slice() || strings.HasPrefix(below, unitname.Default.Slice()+"/")
		switch {
		case strings.HasSuffix(name, ".slice"):
			if s.Cgroups[below], err = g.files(below); err != nil {
				return err
			}
			if name == "user.slice" || depth == maxDepth {
				continue
			}
			if err := g.walk(s, below, depth+1); err != nil {
				return err
			}
		case ofPods && unitname.ContainerID(name) != "":
			if s.Cgroups[below], err = g.files(below); err != nil {
				return err
			}
			if pid, ok := g.firstProcess(below); ok {
				if score, ok := oomScore(pid); ok {
					s.Containers[below] = audit.FirstProcess{PID: pid, OOMScoreAdj: score}
				}
			}
		}
	}
	return nil
}

// names lists the files of a cgroup that rules are about.
var names = []string{
	"cpu.weight", "cpu.max", "memory.max", "memory.high", "memory.swap.max", "pids.max",
	"cpuset.cpus", "cpuset.cpus.effective",
}

// files reads the files of a cgroup. It leaves out those that do not exist, because their
// controller is off, or because the cgroup is gone.
func (g *gatherer) files(cgroup string) (audit.Files, error) {
	files := audit.Files{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(g.cgroups.Path(cgroup), name))
		switch {
		case err == nil:
			files[name] = strings.TrimSpace(string(text))
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV):
			return nil, err
		}
	}
	return files, nil
}

// firstProcess returns the first process in a container's scope: that of the container itself,
// which is older than those that exec starts. crun has it in a cgroup below the scope.
func (g *gatherer) firstProcess(cgroup string) (pid int, ok bool) {
	text, err := os.ReadFile(filepath.Join(g.cgroups.Path(cgroup), "cgroup.procs"))
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
