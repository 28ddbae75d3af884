package host

import (
	"bytes"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/moby/sys/mountinfo"
)

// This file finds file systems that are announced and not mounted: the files on them may
// appear later. It reads fstab(5), the mount units and the current mounts.

const (
	fstabPath     = "/etc/fstab"
	mountinfoPath = "/proc/self/mountinfo"
	maxFstabBytes = 64 << 10
	// A busy node has some 1,000 mounts of 200 bytes. At the generator's first run of the boot there
	// are 20.
	maxMountinfoBytes = 4 << 20
	// maxUnits bounds a directory of units. systemd itself has 400 in one.
	maxUnits = 10_000
)

// UnitDirs lists the directories of the node's units: the system unit search path of
// systemd.unit(5), without the directories of generators, which are still empty.
var UnitDirs = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
}

// early lists the directories that PID 1 itself needs, and that therefore exist when generators run
// (systemd.generator(7): only the root, /usr, and API file systems do). /etc exists too, but a
// directory below it may be a separate file system.
var early = []string{"/usr/", "/run/", "/proc/", "/sys/", "/dev/"}

// networkTypes lists the types of file systems that need the network: fstype_is_network
// (src/basic/mountpoint-util.c, systemd 257).
var networkTypes = []string{
	"afs", "ceph", "cifs", "smb3", "smbfs", "sshfs", "ncpfs", "ncp", "nfs", "nfs4", "gfs", "gfs2", "glusterfs", "pvfs2",
	"ocfs2", "lustre", "davfs",
}

// Late holds files and directories that may appear with a file system that is not mounted yet.
type Late struct {
	// Paths lists the missing files and directories that may appear during the boot.
	Paths []string
	// MountUnits lists the mount units of the boot: local-fs.target requires them, and with it all
	// services wait for them.
	MountUnits []string
	// Bare means that /var is bare and no unit or fstab entry mounts it, as with
	// systemd-gpt-auto-generator, which runs at the same time as we do.
	Bare bool
	// OnDemand lists the other mount units: of file systems that are mounted at any time, or never. No
	// service waits for them, unless it says so.
	OnDemand []string
}

// AtBoot reports whether a mount that all services wait for may bring one of the paths.
func (l Late) AtBoot() bool { return l.Bare || len(l.MountUnits) > 0 }

// Mounts holds the file systems of a node that are announced, and those that are mounted.
type Mounts struct {
	root    Root
	fstab   map[string]entry
	units   map[string]bool     // mount points of mount units; nil if they were not read yet
	links   map[string]string   // targets by path, empty for other files
	mounted map[string]string   // types by mount point; nil if they were not read yet
	waits   map[string][]string // what awaited has returned
}

// entry says how fstab mounts a file system.
type entry struct {
	noauto bool
	// optional means that local-fs.target does not require the mount.
	optional bool
}

// ReadMounts returns the mounts of the node at root.
func ReadMounts(root Root) *Mounts {
	return &Mounts{root: root, fstab: readFstab(root), links: map[string]string{}, waits: map[string][]string{}}
}

// Late returns the missing paths that may come with a file system that is not mounted yet,
// and the mounts that may bring them, or cover one of the other places.
func (m *Mounts) Late(missing, others []string) Late {
	var late Late
	for _, name := range missing {
		found := m.addMounts(name, &late)
		if !found && strings.HasPrefix(name, "/var/") && !m.root.Exists("/var/lib") {
			found, late.Bare = true, true
		}
		if found {
			late.Paths = append(late.Paths, name)
		}
	}
	for _, name := range others {
		m.addMounts(name, &late)
	}
	return late
}

// addMounts adds the mounts that may bring name. It reports whether the boot may mount one of them.
func (m *Mounts) addMounts(name string, late *Late) bool {
	found := false
	for _, point := range m.awaited(name) {
		unitName := unit.UnitNamePathEscape(point) + ".mount"
		known, isFstab := m.fstab[point]
		list := &late.OnDemand
		if isFstab && !known.optional {
			list = &late.MountUnits
		}
		if !slices.Contains(*list, unitName) {
			*list = append(*list, unitName)
		}
		found = found || !known.noauto
	}
	return found
}

// Watchable reports whether a path unit may watch name. systemd makes a path unit require the
// mounts of its paths (path_add_mount_dependencies, src/core/path.c), noauto or not: so it must not
// be below a file system that is announced and not mounted. And PID 1 looks at the path: so it must
// not be on a file system whose server may not answer.
func (m *Mounts) Watchable(name string) bool {
	if len(m.awaited(name)) > 0 {
		return false
	}
	m.readMounted()
	innermost := ""
	for _, dir := range m.way(name) {
		if kind, ok := m.mounted[dir]; ok {
			innermost = kind
		}
	}
	return innermost != autofs && !isNetwork(innermost)
}

// Idle reports whether name is below an automount point with nothing mounted. A look at name would
// mount the file system there, and wait for its server.
func (m *Mounts) Idle(name string) bool {
	return slices.ContainsFunc(m.awaited(name), func(point string) bool { return m.mounted[point] == autofs })
}

// autofs is the type of a mount point that is mounted when something looks at it.
const autofs = "autofs"

// awaited returns the mount points at or above name that are announced and not mounted, outermost
// first.
func (m *Mounts) awaited(name string) []string {
	if isEarly(name) {
		return nil
	}
	points, ok := m.waits[name]
	if !ok {
		points = slices.DeleteFunc(m.way(name), func(dir string) bool { return !m.awaits(dir) })
		m.waits[name] = points
	}
	return points
}

// awaits reports whether dir is a mount point that is announced and not mounted.
func (m *Mounts) awaits(dir string) bool {
	//guard: what is below /run is there
	if _, ok := m.fstab[dir]; isEarly(dir) || !ok && !m.hasUnit(dir) {
		return false
	}
	m.readMounted()
	kind, ok := m.mounted[dir]
	return !ok || kind == autofs
}

func isEarly(name string) bool {
	return slices.ContainsFunc(early, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// maxLinks bounds the links on the way to a file, as the kernel does (MAXSYMLINKS,
// include/linux/namei.h).
const maxLinks = 40

// top is the directory that a walk begins with, below the root of the node.
const top = string(filepath.Separator)

// way returns the directories on the way to name, without the root, and name, outermost first. A
// file can be a mount point, too. It follows links: what is mounted where they lead to has the
// file. It does not look below a mount point that is awaited, because a look would mount the file
// system there. What is below is taken for what it will be without links.
func (m *Mounts) way(name string) []string {
	var way []string
	at, blind := top, false
	rest := elements(name)
	for links := 0; len(rest) > 0; {
		element := rest[0]
		rest = rest[1:]
		if element == "." || element == ".." {
			at = path.Join(at, element)
			continue
		}
		next := strings.TrimSuffix(at, top) + top + element
		blind = blind || m.awaits(next)
		//guard: a link on the way to a file is followed
		if target := m.link(next, blind); target != "" && links < maxLinks {
			links++
			if path.IsAbs(target) {
				at = top
			}
			rest = append(elements(target), rest...)
			continue
		}
		way, at = append(way, next), next
	}
	return way
}

func elements(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
}

// link returns the target of a link. It is empty for other files, and for places that must not be
// read.
func (m *Mounts) link(name string, blind bool) string {
	//guard: nothing below an idle automount is looked at
	if blind {
		return ""
	}
	target, ok := m.links[name]
	if !ok {
		target, _ = m.root.Readlink(name) // a missing file has no target
		m.links[name] = target
	}
	return target
}

func readFstab(root Root) map[string]entry {
	points := map[string]entry{}
	data, err := root.ReadFile(fstabPath, maxFstabBytes)
	if err != nil {
		return points // image-based systems have no fstab, and systemd reports a broken one
	}
	for line := range strings.Lines(string(data)) {
		// fstab(5): device, mount point, type, options. Our paths have no blanks, so we can ignore mount
		// points that do.
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		fields = append(fields, "", "")
		points[path.Clean(fields[1])] = newEntry(fields[2], strings.Split(fields[3], ","))
	}
	return points
}

// newEntry follows systemd-fstab-generator (add_mount, src/fstab-generator/fstab-generator.c, 257).
func newEntry(kind string, options []string) entry {
	has := func(list ...string) bool {
		return slices.ContainsFunc(options, func(option string) bool { return slices.Contains(list, option) })
	}
	return entry{
		noauto: has("noauto"),
		optional: has("noauto", "nofail", "_netdev", "x-systemd.automount", "comment=systemd.automount") ||
			//guard: what another unit mounts is no mount of the boot
			slices.ContainsFunc(options, isOfOtherUnit) || isNetwork(kind),
	}
}

// isOfOtherUnit reports whether an option names the unit that mounts the file system, in place of
// local-fs.target.
func isOfOtherUnit(option string) bool {
	return strings.HasPrefix(option, "x-systemd.wanted-by=") || strings.HasPrefix(option, "x-systemd.required-by=")
}

func isNetwork(kind string) bool {
	return slices.Contains(networkTypes, strings.TrimPrefix(kind, "fuse."))
}

func (m *Mounts) hasUnit(dir string) bool {
	if m.units == nil {
		m.units = map[string]bool{}
		for _, unitDir := range UnitDirs {
			m.readUnits(unitDir)
		}
	}
	return m.units[dir]
}

// readUnits reads the names of the mount units in a directory. systemd refuses a unit whose name is
// not its mount point (mount_verify, src/core/mount.c). A directory that cannot be read has none.
func (m *Mounts) readUnits(dir string) {
	names, _ := m.root.Names(dir, maxUnits)
	for _, name := range names {
		stem, isMount := strings.CutSuffix(name, ".mount")
		if !isMount {
			continue
		}
		// Not a link that leads nowhere.
		if point := unit.UnitNamePathUnescape(stem); !isEarly(point) && m.root.Exists(path.Join(dir, name)) {
			m.units[point] = true
		}
	}
}

func (m *Mounts) readMounted() {
	if m.mounted != nil {
		return
	}
	m.mounted = map[string]string{}
	data, err := m.root.ReadFile(mountinfoPath, maxMountinfoBytes)
	if err != nil {
		return // treated as not mounted: the worst that follows is one reload more
	}
	mounts, err := mountinfo.GetMountsFromReader(bytes.NewReader(data), nil)
	if err != nil {
		return
	}
	for _, mount := range mounts {
		m.mounted[mount.Mountpoint] = mount.FSType
	}
}
