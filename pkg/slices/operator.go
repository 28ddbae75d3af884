package slices

import (
	"maps"
	"path"
	"slices"
	"strings"

	"node-partition.io/node-partition/internal/host"
)

// dropinPlaces lists the directories in which an operator's drop-ins may be, the first that counts
// first: lookup_paths_init (systemd, src/libsystemd/sd-path/path-lookup.c, 257) without those of
// generators, where ours are.
var dropinPlaces = []string{
	"/etc/systemd/system.control",
	"/run/systemd/system.control",
	"/run/systemd/transient",
	"/etc/systemd/system",
	"/etc/systemd/system.attached",
	"/run/systemd/system",
	"/run/systemd/system.attached",
	"/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system",
}

// unitPlaces lists the directories of units that systemd reads in place of a generator's units. It
// leaves out transient units, which a container runtime makes, too (the source of dropinPlaces).
var unitPlaces = []string{
	"/etc/systemd/system",
	"/etc/systemd/system.attached",
	"/run/systemd/system",
	"/run/systemd/system.attached",
}

// operatorSets reports whether an operator has set a property of a slice by hand, such as
// MemoryMax: with "systemctl set-property", "systemctl edit" or a drop-in of any kind. The
// operator's value wins over the value in our unit file. A unit file of the operator's own replaces
// ours and sets every property, because a property that it leaves out is not ours either. For
// AllowedCPUs, systemd adds the lists of a unit file and of its drop-ins up.
func operatorSets(root host.Root, slice, property string) bool {
	for _, place := range unitPlaces {
		if root.Exists(path.Join(place, slice)) {
			return true
		}
	}
	set := false
	for _, text := range dropins(root, slice) {
		section := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "[") {
				section = line
			}
			key, value, isSetting := strings.Cut(line, "=")
			if section == "[Slice]" && isSetting && strings.TrimSpace(key) == property {
				set = strings.TrimSpace(value) != "" // an empty value takes back those before
			}
		}
	}
	return set
}

// dropins returns the texts of the drop-ins of a slice, in the order in which systemd applies them:
// by their names. Of files of the same name the first counts, also if it is a link to /dev/null
// (unit_file_find_dropin_paths, src/shared/dropin.c; conf_files_list_strv, src/basic/conf-files.c).
func dropins(root host.Root, slice string) []string {
	texts := map[string]string{}
	for _, dir := range dropinDirs(slice) {
		entries, err := root.ReadDir(dir, maxDropins)
		if err != nil {
			continue // there is none
		}
		for _, entry := range entries {
			name := entry.Name()
			if _, hidden := texts[name]; hidden || !strings.HasSuffix(name, ".conf") {
				continue
			}
			text, err := root.ReadFile(path.Join(dir, name), maxBytes)
			if err != nil {
				text = nil // a mask, or nothing that systemd can read
			}
			texts[name] = string(text)
		}
	}
	sorted := make([]string, 0, len(texts))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		sorted = append(sorted, texts[name])
	}
	return sorted
}

// dropinDirs returns the folders of a slice's drop-ins: for its name, for each prefix of it that
// ends with a dash, and then for all slices.
func dropinDirs(slice string) []string {
	var dirs []string
	for _, place := range dropinPlaces {
		dirs = append(dirs, path.Join(place, slice+".d"))
		for prefix := strings.TrimSuffix(slice, ".slice"); ; {
			dash := strings.LastIndexByte(strings.TrimSuffix(prefix, "-"), '-')
			if dash < 1 {
				break
			}
			prefix = prefix[:dash+1]
			dirs = append(dirs, path.Join(place, prefix+".slice.d"))
		}
	}
	for _, place := range dropinPlaces {
		dirs = append(dirs, path.Join(place, "slice.d"))
	}
	return dirs
}
