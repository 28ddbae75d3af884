package config

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/text"
)

// Reserved holds the slices that the kubelet expects. With kube-reserved or system-reserved in
// enforceNodeAllocatable, the kubelet does not start if the cgroup that kubeReservedCgroup or
// systemReservedCgroup names does not exist (enforceExistingCgroup,
// pkg/kubelet/cm/node_container_manager_linux.go, 1.37.0).
type Reserved struct {
	// Slices lists them, each once. It does not list system.slice and user.slice: systemd makes those.
	Slices []ReservedSlice
	// CPUs holds the CPUs that the node has. The kubelet expects the cpuset controller in the cgroups,
	// and systemd enables it for a slice with a list of CPUs.
	CPUs cpuset.CPUSet
	// HugeTLB means that the kernel has the hugetlb controller. The kubelet expects that in the
	// cgroups too, and systemd does not enable it (systemd issue 14662).
	HugeTLB bool
}

// ReservedSlice is a slice that the kubelet expects.
type ReservedSlice struct {
	// Name is the name of the unit.
	Name string
	// For is kube-reserved or system-reserved.
	For string
	// File is the file of the kubelet's configuration that names the cgroup.
	File string
}

const (
	suffix = ".slice"
	// wantReserved ends messages about the name of a reserved cgroup.
	wantReserved = "want the name of a slice, such as /kube.slice"
	// compressible ends the names of the enforcements that leave memory out.
	compressible = "-compressible"
)

// reserve finds the reserved slices. The name of one that cannot be made is a warning, and not an
// error: no partition depends on it.
func (c *Config) reserve(root host.Root) error {
	k := &c.Kubelet.Kubelet
	for _, cgroup := range []struct{ enforcement, field, value string }{
		{"kube-reserved", "kubeReservedCgroup", k.KubeReservedCgroup},
		{"system-reserved", "systemReservedCgroup", k.SystemReservedCgroup},
	} {
		if !slices.Contains(k.EnforceNodeAllocatable, cgroup.enforcement) &&
			!slices.Contains(k.EnforceNodeAllocatable, cgroup.enforcement+compressible) {
			continue
		}
		file := c.Kubelet.FileWith(cgroup.field)
		warn := func(format string, args ...any) {
			c.Warnings = append(c.Warnings,
				fmt.Sprintf("%s: %s: %s: ", file, cgroup.field, quote(cgroup.value))+fmt.Sprintf(format, args...))
		}
		if cgroup.value == "" {
			const list = "enforceNodeAllocatable"
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: %s: %s: %s is missing: the kubelet does not start; %s",
				c.Kubelet.FileWith(list), list, cgroup.enforcement, cgroup.field, wantReserved))
			continue
		}
		if k.ReservedSystemCPUs != "" { // ValidateKubeletConfiguration refuses it
			warn("the kubelet does not start with this and reservedSystemCPUs; remove one of the two")
		}
		name := kubeletSlice(cgroup.value)
		if why := unfitSlice(name); why != "" {
			warn("%s: making no slice; %s", why, wantReserved)
			continue
		}
		if name == systemSlice || name == userSlice {
			continue // systemd makes them
		}
		if isBelow(name, userSlice) {
			warn("exists only while its user is logged in, if at all: making no slice; %s", wantReserved)
			continue
		}
		if why := c.surprise(cgroup.value, name); why != "" {
			warn("%s", why)
		}
		if !slices.ContainsFunc(c.Reserved.Slices, func(s ReservedSlice) bool { return s.Name == name }) {
			c.Reserved.Slices = append(c.Reserved.Slices, ReservedSlice{name, cgroup.enforcement, file})
		}
	}
	slices.SortFunc(c.Reserved.Slices, func(a, b ReservedSlice) int { return cmp.Compare(a.Name, b.Name) })
	if len(c.Reserved.Slices) == 0 {
		return nil
	}
	return c.Reserved.readNode(root)
}

// readNode reads the facts that the reserved slices depend on.
func (r *Reserved) readNode(root host.Root) error {
	controllers, err := readControllers(root)
	if err != nil {
		return err
	}
	r.HugeTLB = slices.Contains(controllers, "hugetlb")
	r.CPUs, err = readCPUs(root, presentPath)
	return err
}

// surprise returns a warning about a name that the kubelet converts to the name of another slice
// than an operator may think. It returns an empty string for a name without a surprise.
func (c *Config) surprise(value, slice string) string {
	literal := strings.TrimPrefix(path.Clean("/"+value), "/")
	ofSlice := partition.CgroupPath(slice)
	if c.Kubelet.Kubelet.CgroupDriver == "cgroupfs" {
		if literal == ofSlice {
			return ""
		}
		return fmt.Sprintf("with cgroupDriver cgroupfs the kubelet looks for the cgroup /%s, which no slice has: making %s; "+
			"want cgroupDriver systemd", text.ASCII(literal), slice)
	}
	last := path.Base(literal)
	if ext := path.Ext(last); ext == ".service" || ext == ".scope" {
		return fmt.Sprintf("the kubelet looks for %s, in which no process runs: making it, so that the kubelet starts; "+
			"want the slice of %s", slice, last)
	}
	// The directories may be written as slices or as their bare names.
	if dir := plainDir(literal); dir != "" && dir != plainDir(ofSlice) {
		want := "/" + slice
		if below := strings.ReplaceAll(dir, "/", "-") + "-" + slice; unfitSlice(below) == "" {
			want += " or /" + partition.CgroupPath(below)
		}
		return fmt.Sprintf("the kubelet looks for %s, because only the last part counts: making it; want %s", slice, want)
	}
	return ""
}

// plainDir returns the directory of a cgroup's path, with the last part of each slice's name alone:
// a/b for a.slice/a-b.slice/a-b-c.slice.
func plainDir(cgroup string) string {
	dir, _ := path.Split(cgroup)
	parts := strings.Split(strings.Trim(dir, "/"), "/")
	for i, part := range parts {
		part = strings.TrimSuffix(part, suffix)
		parts[i] = part[strings.LastIndexByte(part, '-')+1:]
	}
	return strings.Join(parts, "/")
}

// kubeletSlice returns the name of the slice that a kubelet with the systemd driver looks for if
// its configuration names a cgroup: the last part of the path, with the suffix
// (ParseSystemdToCgroupName and CgroupName.ToSystemd, pkg/kubelet/cm/cgroup_manager_linux.go,
// 1.37.0). So a dash is a level, and a directory in front has no effect. The kubelet changes
// underscores to dashes and back.
func kubeletSlice(cgroup string) string {
	return strings.TrimSuffix(path.Base(cgroup), suffix) + suffix
}

const (
	systemSlice = "system.slice"
	userSlice   = "user.slice"
	// initSlice results from init.scope, which is PID 1's.
	initSlice = "init.scope.slice"
	// maxUnitName is the longest name of a unit, in bytes (UNIT_NAME_MAX, src/basic/unit-name.h).
	maxUnitName = 255
	// maxCgroupPath is the longest path of a slice's cgroup, in bytes: PATH_MAX less the mount and the
	// names of files. A name of 255 bytes with a dash at every second has a path of 16 KB.
	maxCgroupPath = 4096 - 256
)

// escaped lists the names before the first dot of a unit that systemd puts an underscore in front
// of, for the unit's cgroup: cgroup and the controllers (cg_needs_escape,
// src/basic/cgroup-util.c).
var escaped = []string{
	"cgroup", "cpu", "cpuacct", "cpuset", "io", "blkio", "memory", "devices", "pids", "bpf-firewall", "bpf-devices",
	"bpf-foreign", "bpf-socket-bind", "bpf-restrict-network-interfaces",
}

// unfitSlice returns the reason why a slice of that name cannot be made for processes other than
// pods. It returns an empty string if it can be made.
func unfitSlice(name string) string {
	stem := strings.TrimSuffix(name, suffix)
	switch {
	case stem == "" || stem == "-" || stem == "/":
		return "is the root of all cgroups"
	case len(name) > maxUnitName || strings.ContainsFunc(stem, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune(":-_.", r)
	}):
		return "the name of a slice has letters, digits and :-_. alone, at most 255"
	case len(partition.CgroupPath(name)) > maxCgroupPath:
		return "has too many levels"
	case slices.Contains(strings.Split(stem, "-"), ""):
		return "each dash in the name of a slice is between two parts (systemd.slice(5))"
	case isBelow(name, partition.Default.Slice()):
		return "is the kubelet's own, for pods"
	case name == initSlice:
		return "is of systemd itself"
	}
	for level := range strings.SplitSeq(partition.CgroupPath(name), "/") {
		if before, _, _ := strings.Cut(level, "."); level[0] == '_' || before == "" || slices.Contains(escaped, before) {
			return "systemd gives " + level + " the cgroup _" + level
		}
	}
	return ""
}

// isBelow reports whether the slice name is root or below it.
func isBelow(name, root string) bool {
	return name == root || strings.HasPrefix(name, strings.TrimSuffix(root, suffix)+"-")
}
