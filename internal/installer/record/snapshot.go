package record

import (
	"fmt"
	"maps"
	"slices"
)

// Snapshot is a node as far as a rollout may change it.
type Snapshot struct {
	// Boot is the kernel's ID of the boot.
	Boot string `json:"boot"`
	// Files holds what is at each path that a rollout may write.
	Files map[string]Present `json:"files"`
	// Units holds the state of units, such as active, by their names.
	Units map[string]string `json:"units"`
	// Cgroups holds the values of files of cgroups, by their paths. One that is not there is as one
	// that is empty.
	Cgroups map[string]string `json:"cgroups"`
}

// Differences returns a sentence for each file that is not as before, and one for each unit and
// each value of a cgroup. After a boot files alone are compared: the rest is as the boot makes it.
func Differences(before, now Snapshot) (files, rest []string) {
	for _, name := range union(before.Files, now.Files) {
		if was, is := before.Files[name], now.Files[name]; was != is {
			files = append(files, fmt.Sprintf("%s %s", name, changed(was, is)))
		}
	}
	if before.Boot != now.Boot {
		return files, nil
	}
	for _, name := range union(before.Units, now.Units) {
		if was, is := state(before.Units[name]), state(now.Units[name]); !asBefore(was, is) {
			rest = append(rest, fmt.Sprintf("%s is %s, and was %s", name, is, was))
		}
	}
	for _, name := range union(before.Cgroups, now.Cgroups) {
		if was, is := before.Cgroups[name], now.Cgroups[name]; was != is {
			rest = append(rest, fmt.Sprintf("%s is %q, and was %q", name, is, was))
		}
	}
	return files, rest
}

func union[T any](a, b map[string]T) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// state returns the state of a unit that need not be loaded.
func state(s string) string {
	if s == "" {
		return "inactive"
	}
	return s
}

// asBefore reports whether a unit is in the state in which it was, or to which it was on its way. A
// service that has failed runs no more than one that is stopped.
func asBefore(was, is string) bool {
	end := map[string]string{
		"activating": "active", "reloading": "active", "deactivating": "inactive", "failed": "inactive",
	}
	if is == "failed" {
		is = "inactive"
	}
	//guard: a monitor that had failed before a roll is reported as a difference
	return was == is || end[was] == is
}

func changed(was, is Present) string {
	switch {
	case !was.Exists:
		return "is there, and was not"
	case !is.Exists:
		return "is not there any more"
	case was.SHA256 == is.SHA256 && was.Kind == is.Kind && was.Link == is.Link:
		return fmt.Sprintf("has the mode %04o, and had %04o", is.Mode.Perm(), was.Mode.Perm())
	}
	return "has another content than before"
}
