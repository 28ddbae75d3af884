package slices

import (
	"path"
	"slices"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/unitname"
)

// unitDirs lists the directories of a service's unit: the system unit search path of
// systemd.unit(5), without the directories of generators, which are still empty.
var unitDirs = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
}

// installedServices returns those of kubeletServices, runtimeServices and unitname.MonitorService
// that are installed.
func installedServices(root hostfs.FS) []string {
	var installed []string
	for _, service := range slices.Concat(kubeletServices, runtimeServices, []string{unitname.MonitorService}) {
		if slices.ContainsFunc(unitDirs, func(dir string) bool { return root.Exists(path.Join(dir, service)) }) {
			installed = append(installed, service)
		}
	}
	return installed
}
