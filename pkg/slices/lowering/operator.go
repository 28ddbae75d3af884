package lowering

import (
	"strings"

	"nodepartition/internal/hostfs"
)

// OperatorSets reports whether an operator has set a property of a slice by hand, such as
// MemoryMax. The operator's value wins over that of our unit file. For AllowedCPUs, systemd adds
// the lists of a unit file and of its drop-ins up.
func OperatorSets(root hostfs.FS, slice, property string) bool {
	// "systemctl set-property" writes a property to this file. It overrides the units.
	for _, dir := range []string{"/run/systemd/system.control/", "/etc/systemd/system.control/"} {
		if _, err := root.Lstat(dir + slice + ".d/50-" + property + ".conf"); err == nil {
			return true
		}
	}
	// "systemctl edit" and configuration management write drop-ins here. They override a unit.
	for _, dir := range []string{"/run/systemd/system/" + slice + ".d", "/etc/systemd/system/" + slice + ".d"} {
		entries, err := root.ReadDir(dir, maxDropins)
		if err != nil {
			continue // there is none
		}
		for _, entry := range entries {
			text, err := root.ReadFile(dir+"/"+entry.Name(), maxBytes)
			if err != nil || !strings.HasSuffix(entry.Name(), ".conf") {
				continue
			}
			for line := range strings.Lines(string(text)) {
				key, value, _ := strings.Cut(line, "=")
				if strings.TrimSpace(key) == property && strings.TrimSpace(value) != "" {
					return true
				}
			}
		}
	}
	return false
}
