package slices

import (
	"path"
	"slices"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
)

// installedServices returns kubeletServices, runtimeServices and partition.MonitorService, without
// services that are not installed.
func installedServices(root host.Root) []string {
	return ofInstalled(root, slices.Concat(kubeletServices, runtimeServices, []string{partition.MonitorService}))
}

// ofInstalled returns the services that are installed. Who names others in After= or Before=
// makes systemd load a unit for each, which "systemctl list-units --all" shows as not-found.
func ofInstalled(root host.Root, services []string) []string {
	var list []string
	for _, service := range services {
		//guard: a service that the node does not have is not named
		if installed(root, service) {
			list = append(list, service)
		}
	}
	return list
}

func installed(root host.Root, name string) bool {
	return slices.ContainsFunc(host.UnitDirs, func(dir string) bool { return root.Exists(path.Join(dir, name)) })
}
