package partition

import (
	"errors"
	"fmt"
	"strings"
)

// Name is the name of a part of a node's pods. It is the label "partition" of the KEP's
// metrics.
type Name string

const (
	// System is the partition of KEP-5894, kubepods-system.slice.
	System Name = "system"
	// First is the partition that was the only one before there were others. Files, figures and texts
	// of that time do not name it, and those that programs select by keep their form.
	First = System
	// Default is kubepods.slice without the partitions below it. The kubelet puts pods there.
	Default Name = "default"
)

// maxName bounds the name of a partition. The name of a pod's slice has 64 bytes beside it, and
// the metrics repeat it in each series.
const maxName = 40

// maxLabel bounds an RFC 1123 label.
const maxLabel = 63

var (
	errNotLabel = fmt.Errorf("is not an RFC 1123 label of at most %d characters; want lower case letters, digits and -", maxName)
	errReserved = errors.New("is a name that the kubelet's slices have; want another name")
	errPod      = errors.New(`contains "pod": the kubelet would take its slice for the slice of a pod that is gone, ` +
		"and kill the processes in it; want another name")
)

// Check returns an error if no partition may have the name. The kubelet looks for pods in the
// folders below kubepods.slice, and splits their names at "pod" (GetAllPodsFromCgroups,
// pkg/kubelet/cm/pod_container_manager_linux.go, 1.37): kubepods-podman.slice would be the slice of
// a pod "man". A partition "burstable" would have the slice of the kubelet's own burstable pods.
func (p Name) Check() error {
	name := string(p)
	switch {
	case !IsLabel(name) || len(name) > maxName:
		return errNotLabel
	case p == Default || name == "burstable" || name == "besteffort":
		return errReserved
	case strings.Contains(name, podMark[1:]):
		return errPod
	}
	return nil
}

// IsLabel reports whether name is an RFC 1123 label, as the names of namespaces are. The package of
// apimachinery that has such a function compiles its regular expressions at the start of a program,
// which the generator has no time for.
func IsLabel(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= maxLabel && name[0] != '-' && name[len(name)-1] != '-'
}

// stem returns the name of the partition's slice without the suffix. The kubelet's cgroup name
// {kubepods, system, burstable} is kubepods-system-burstable.slice under the systemd driver
// (CgroupName.ToSystemd, pkg/kubelet/cm/cgroup_manager_linux.go), and systemd nests slices by the
// dashes in their names (systemd.slice(5)). So the dashes of a partition's name are underscores
// there (escapeSystemdCgroupName). No name has an underscore, so that the name can be had back.
func (p Name) stem() string {
	if p == Default {
		return root
	}
	return root + "-" + strings.ReplaceAll(string(p), "-", "_")
}

// fromStem is the inverse of stem.
func fromStem(stem string) (Name, bool) {
	if stem == root {
		return Default, true
	}
	escaped, ok := strings.CutPrefix(stem, root+"-")
	if !ok || strings.ContainsRune(escaped, '-') {
		return "", false
	}
	p := Name(strings.ReplaceAll(escaped, "_", "-"))
	//guard: a slice whose name would be the kubelet's is no partition's
	return p, p.Check() == nil
}
