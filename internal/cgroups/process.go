package cgroups

import "strings"

// OfProcess returns the cgroup in the text of /proc/PID/cgroup: "/kubepods.slice" for the line
// "0::/kubepods.slice" (cgroups(7)). It is empty without such a line. Hierarchies of cgroup v1 that
// somebody has mounted have lines of their own.
func OfProcess(text string) string {
	for line := range strings.Lines(text) {
		if cgroup, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return cgroup
		}
	}
	return ""
}
