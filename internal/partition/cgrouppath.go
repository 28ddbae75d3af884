package partition

import "strings"

// CgroupPath returns the path of a slice's cgroup below the mount. Each dash in its name is a
// level: a-b.slice is in a.slice (systemd.slice(5)).
func CgroupPath(slice string) string {
	name, _ := strings.CutSuffix(slice, suffix)
	var path strings.Builder
	path.Grow((strings.Count(name, "-") + 1) * (len(slice) + 1))
	for i, c := range name {
		if c == '-' {
			path.WriteString(name[:i])
			path.WriteString(suffix)
			path.WriteByte('/')
		}
	}
	path.WriteString(slice)
	return path.String()
}
