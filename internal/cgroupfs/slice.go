package cgroupfs

import "strings"

// SlicePath is where the cgroup of a slice is, below the mount: each dash in its name is a level, a-b.slice is in a.slice
// (systemd.slice(5)).
func SlicePath(slice string) string {
	name, _ := strings.CutSuffix(slice, ".slice")
	var path strings.Builder
	for i, c := range name {
		if c == '-' {
			path.WriteString(name[:i] + ".slice/")
		}
	}
	return path.String() + slice
}
