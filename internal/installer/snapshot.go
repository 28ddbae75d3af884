package installer

import (
	"context"
	"path"
	"strings"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
)

// limits lists the files of a partition's cgroup that a rollout may change.
var limits = []string{"memory.max", "memory.high", "cpuset.cpus"}

// The folders that have the slices of partitions: the units that the generator has made, and the
// cgroups.
const generated = "/run/systemd/generator"

var kubepods = partition.Default.Cgroup()

// slices returns the slices of partitions in a folder, without the kubelet's for a class of pods.
func (h *Host) slices(folder string) []string {
	entries, err := h.Root.ReadDir(folder, maxCgroups)
	if err != nil {
		return nil // it is not there yet
	}
	var slices []string
	for _, e := range entries {
		if name, ok := partition.ParseSlice(e.Name()); ok && name != partition.Default {
			slices = append(slices, e.Name())
		}
	}
	return slices
}

// maxCgroups bounds the cgroups below one: a node has a few hundred pods.
const maxCgroups = 100_000

// snapshot returns the node as far as a change of a layout may change it.
func (h *Host) snapshot(ctx context.Context, l layout) (record.Snapshot, error) {
	moment, err := h.Now()
	s := record.Snapshot{
		Boot: moment.Boot, Files: map[string]record.Present{}, Units: map[string]string{}, Cgroups: map[string]string{},
	}
	if err != nil {
		return s, err
	}
	names := make([]string, 0, 3+len(l.links))
	names = append(names, kubeletconfig.OverridePath, kubeletconfig.TrialPath, l.current())
	for _, k := range l.links {
		names = append(names, k.path)
	}
	for _, name := range names {
		is, err := h.Present(name)
		if err != nil {
			return s, err
		}
		s.Files[name] = is
	}
	slices := h.slices(kubepods)
	units := append([]string{partition.MonitorService}, slices...)
	states, err := h.show(ctx, "Id,ActiveState", units...)
	if err != nil {
		return s, err
	}
	for _, u := range states {
		if state := u["ActiveState"]; state != "inactive" {
			s.Units[u["Id"]] = state
		}
	}
	for _, slice := range append([]string{""}, slices...) {
		for _, limit := range limits {
			name := path.Join(partition.Default.Cgroup(), slice, limit)
			if data, err := h.Root.ReadFile(name, 64<<10); err == nil {
				s.Cgroups[name] = strings.TrimSpace(string(data))
			}
		}
	}
	return s, nil
}
