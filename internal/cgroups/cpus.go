package cgroups

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/utils/cpuset"
)

// CPUs returns the CPUs that were set for a cgroup, none if it has no set, and the CPUs
// that it has in effect (cpuset.cpus, cpuset.cpus.effective). They differ if its parent lacks some
// of them. If the parent has none of them, all of the parent's are in effect.
func (f FS) CPUs(cgroup string) (given, effective cpuset.CPUSet, err error) {
	for _, file := range []struct {
		name string
		set  *cpuset.CPUSet
	}{{"cpuset.cpus", &given}, {"cpuset.cpus.effective", &effective}} {
		// The list of a large machine has thousands of characters, if its CPUs alternate.
		text, err := f.ReadFile(cgroup, file.name)
		if err != nil {
			return given, effective, err
		}
		if *file.set, err = cpuset.Parse(strings.TrimSpace(string(text))); err != nil {
			return given, effective, fmt.Errorf("%s: %w", filepath.Join(f.Path(cgroup), file.name), err)
		}
	}
	return given, effective, nil
}
