package lab

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Look holds the observable state of a node: its units, its cgroups and its files, by name. Names
// leave out what differs from boot to boot, such as the IDs of containers, so several things may
// have one name.
type Look struct {
	// Units holds the states of units, Cgroups the limits that are set, and Files the modes, sizes and
	// link targets of the files of the node's configuration.
	Units, Cgroups, Files map[string][]string
	// Controllers lists the controllers that are enabled below each cgroup. systemd enables one when
	// it is first needed, and leaves it enabled.
	Controllers map[string][]string
}

// limitFiles lists the files of a cgroup with settings. Files with usage are left out, and
// memory.oom.group, which systemd 262 resets at each reload.
var limitFiles = []string{
	"memory.max", "memory.high", "memory.min", "memory.low", "memory.swap.max",
	"cpu.weight", "cpu.max", "cpuset.cpus", "cpuset.mems", "pids.max", "io.weight",
	"cgroup.type", controllersFile,
}

const controllersFile = "cgroup.subtree_control"

// unset holds the values of limits that were never set. A file exists or not depending on the
// controllers that are enabled.
var unset = map[string]string{
	"memory.max":      "max",
	"memory.high":     "max",
	"memory.min":      "0",
	"memory.low":      "0",
	"memory.swap.max": "max",
	"cpu.weight":      "100",
	"cpu.max":         "max 100000",
	"cpuset.cpus":     "",
	"cpuset.mems":     "",
	"pids.max":        "max",
	"io.weight":       "default 100",
	"cgroup.type":     "domain",
}

// Parts of names that differ from boot to boot, or from node to node.
var varying = []struct {
	pattern *regexp.Regexp
	to      string
}{
	{regexp.MustCompile(`[0-9a-f]{64}`), "ID"},
	{regexp.MustCompile(`-pod[0-9a-f_]{32,36}`), "-podUID"},
	{regexp.MustCompile(`pods-[0-9a-f]{8}\\x2d[0-9a-f]{4}\\x2d[0-9a-f]{4}\\x2d[0-9a-f]{4}\\x2d[0-9a-f]{12}`), "pods-UID"},
	{regexp.MustCompile(`pods-[0-9a-f]{32}`), "pods-UID"},
	{regexp.MustCompile(`netns-cni\\x2d[0-9a-f\\x-]+\.mount`), "netns-cni-ID.mount"},
	{regexp.MustCompile(`volumes-kubernetes\.io\\x7eprojected-.*\.mount`), "volumes.mount"},
	{regexp.MustCompile(`session-[0-9c]+\.scope`), "session-N.scope"},
	{regexp.MustCompile(`sshd?@[^/]*\.service`), "ssh@N.service"},
}

func withoutIDs(name string) string {
	for _, v := range varying {
		name = v.pattern.ReplaceAllString(name, v.to)
	}
	return name
}

// comesAndGoes matches units that exist only at times: jobs of timers, and the units of the lab's
// own login.
var comesAndGoes = regexp.MustCompile(
	`^(session-|user@|user-runtime-dir@|user-0\.slice|ssh@|sshd@|systemd-tmpfiles-clean|systemd-(hostnamed|timedated|localed)|.*\.device$|run-user-0)`,
)

// ComesAndGoes reports whether units of that name exist only at times.
func ComesAndGoes(unit string) bool { return comesAndGoes.MatchString(unit) }

// configured lists the folders with the files of a node's configuration.
const configured = "/etc /usr/lib/systemd /usr/bin/partition-* /run/systemd/generator /run/systemd/generator.early /run/systemd/generator.late " +
	"/run/systemd/system /run/systemd/system.control /run/systemd/transient /run/node-partition/units"

// Look returns the present state of the node. It reads only files of configuration, not those of
// pods and of the runtime.
func (n *Node) Look(ctx context.Context) (Look, error) {
	l := Look{
		Units:       map[string][]string{},
		Cgroups:     map[string][]string{},
		Files:       map[string][]string{},
		Controllers: map[string][]string{},
	}
	add := func(to map[string][]string, name, value string) {
		to[name] = append(to[name], value)
		slices.Sort(to[name])
	}
	const end = "== end of a part"
	out, err := n.Run(ctx, "systemctl list-units --all --plain --no-legend; echo '"+end+"'; "+
		"awk '/MemTotal/ {printf \"%.0f\", $2*1024}' /proc/meminfo; echo; echo '"+end+"'; "+
		"find "+configured+" -not -type d -printf '%p %M %s %l\\n' 2>/dev/null; true")
	if err != nil {
		return l, err
	}
	parts := strings.Split(out, end+"\n")
	if len(parts) != 3 {
		return l, fmt.Errorf("node %s: look: %d parts, want 3", n.Name, len(parts))
	}
	for line := range strings.Lines(parts[0]) {
		fields := strings.Fields(line)
		if len(fields) < 4 || comesAndGoes.MatchString(fields[0]) {
			continue
		}
		add(l.Units, withoutIDs(fields[0]), strings.Join(fields[1:4], " "))
	}
	memory := strings.TrimSpace(parts[1]) // differs by some pages from boot to boot
	tree, err := n.CgroupTree(ctx, limitFiles...)
	if err != nil {
		return l, err
	}
	for _, group := range tree {
		path := withoutIDs(group.Path)
		if strings.Contains(group.Path, "user.slice/") || comesAndGoes.MatchString(path[strings.LastIndex(path, "/")+1:]) {
			continue
		}
		values := ""
		for _, name := range slices.Sorted(maps.Keys(group.Values)) {
			value := group.Values[name]
			if name == controllersFile {
				add(l.Controllers, path, value)
				continue
			}
			if value == unset[name] {
				continue
			}
			if value == memory {
				value = "MemTotal"
			}
			values += name + "=" + value + " "
		}
		add(l.Cgroups, path, values)
	}
	for line := range strings.Lines(parts[2]) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if base := name[strings.LastIndex(name, "/")+1:]; comesAndGoes.MatchString(base) {
			continue
		}
		add(l.Files, withoutIDs(name), value)
	}
	return l, nil
}

// Differences lists the differences to an earlier look, one line each, sorted.
func (l Look) Differences(earlier Look) []string {
	var all []string
	for what, seen := range map[string][2]map[string][]string{
		"unit": {earlier.Units, l.Units}, "cgroup": {earlier.Cgroups, l.Cgroups}, "file": {earlier.Files, l.Files},
		"controllers of": {earlier.Controllers, l.Controllers},
	} {
		for name, value := range seen[0] {
			if got, ok := seen[1][name]; !ok {
				all = append(all, fmt.Sprintf("%s %s is missing", what, name))
			} else if !slices.Equal(got, value) {
				all = append(all, fmt.Sprintf("%s %s: %q, was %q", what, name, got, value))
			}
		}
		for name := range seen[1] {
			if _, ok := seen[0][name]; !ok {
				all = append(all, fmt.Sprintf("%s %s was not there before", what, name))
			}
		}
	}
	slices.Sort(all)
	return all
}
