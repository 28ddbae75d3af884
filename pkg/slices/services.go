package slices

import (
	"path"
	"slices"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/unitname"
)

// unitDirs lists the directories of the node's units: the system unit search path of
// systemd.unit(5), without the directories of generators, which are still empty.
var unitDirs = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
}

// installedServices returns those of kubeletServices, runtimeServices and unitname.MonitorService
// that are installed.
func installedServices(root hostfs.FS) []string {
	var list []string
	for _, service := range slices.Concat(kubeletServices, runtimeServices, []string{unitname.MonitorService}) {
		if installed(root, service) {
			list = append(list, service)
		}
	}
	return list
}

// installed reports whether the node has a unit file of that name.
func installed(root hostfs.FS, name string) bool {
	return slices.ContainsFunc(unitDirs, func(dir string) bool { return root.Exists(path.Join(dir, name)) })
}
