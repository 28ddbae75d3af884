// Package latemount finds missing files that may appear during the boot, with a file system that is
// not mounted yet. It reads fstab(5), the mount units and the current mounts.
package latemount

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/moby/sys/mountinfo"

	"nodepartition/internal/hostfs"
)

const (
	fstabPath     = "/etc/fstab"
	mountinfoPath = "/proc/self/mountinfo"
	maxFstabBytes = 64 << 10
	// A busy node has some 1,000 mounts of 200 bytes. At the generator's first run of the boot there
	// are 20.
	maxMountinfoBytes = 4 << 20
)

// mountUnitDirs lists the directories of mount units that systemd-fstab-generator did not write.
var mountUnitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"}

// early lists the directories that PID 1 itself needs, and that therefore exist when generators run
// (systemd.generator(7): only the root, /usr, and API file systems do; /etc is part of the root).
var early = []string{"/etc/", "/usr/", "/run/", "/proc/", "/sys/", "/dev/"}

// Late holds files and directories that may appear during the boot: they do not exist, and the file
// system they belong to is not mounted yet.
type Late struct {
	// Paths lists the missing files and directories.
	Paths []string
	// MountUnits lists the mount units to wait for. It is empty if /var is bare and no unit or fstab
	// entry mounts it, as with systemd-gpt-auto-generator, which runs at the same time as we do.
	MountUnits []string
}

// Find returns the missing paths that may come with a file system that is not mounted yet.
func Find(root hostfs.FS, missing []string) Late {
	var late Late
	var points []string // mount points to come
	var mounted map[string]bool
	fstab := fstabMountPoints(root)
	checked := map[string]bool{}
	for _, name := range missing {
		if isEarly(name) {
			continue
		}
		found := false
		for _, dir := range parents(name) {
			if !fstab[dir] && !mountUnitExists(root, dir, checked) {
				continue
			}
			if mounted == nil {
				mounted = mountedPoints(root)
			}
			if mounted[dir] {
				continue
			}
			found = true
			if point := unit.UnitNamePathEscape(dir) + ".mount"; !slices.Contains(points, point) {
				points = append(points, point)
			}
		}
		if !found && strings.HasPrefix(name, "/var/") && !root.Exists("/var/lib") {
			found = true
		}
		if found {
			late.Paths = append(late.Paths, name)
		}
	}
	late.MountUnits = points
	return late
}

func isEarly(name string) bool {
	return slices.ContainsFunc(early, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// parents returns the directories above name, without the root, outermost first.
func parents(name string) []string {
	var dirs []string
	for dir := path.Dir(name); dir != "/" && dir != "."; dir = path.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
	}
	return dirs
}

// fstabMountPoints returns the mount points of /etc/fstab that the boot mounts by itself.
func fstabMountPoints(root hostfs.FS) map[string]bool {
	points := map[string]bool{}
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
		if len(fields) > 3 && slices.Contains(strings.Split(fields[3], ","), "noauto") {
			continue
		}
		points[path.Clean(fields[1])] = true
	}
	return points
}

func mountUnitExists(root hostfs.FS, dir string, known map[string]bool) bool {
	if exists, ok := known[dir]; ok {
		return exists
	}
	name := unit.UnitNamePathEscape(dir) + ".mount"
	known[dir] = slices.ContainsFunc(
		mountUnitDirs,
		func(unitDir string) bool { return root.Exists(path.Join(unitDir, name)) },
	)
	return known[dir]
}

func mountedPoints(root hostfs.FS) map[string]bool {
	points := map[string]bool{}
	data, err := root.ReadFile(mountinfoPath, maxMountinfoBytes)
	if err != nil {
		return points // treated as not mounted: the worst that follows is one reload more
	}
	mounts, err := mountinfo.GetMountsFromReader(bytes.NewReader(data), nil)
	if err != nil {
		return points
	}
	for _, m := range mounts {
		points[m.Mountpoint] = true
	}
	return points
}
