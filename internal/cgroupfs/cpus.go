package cgroupfs

import (
	"fmt"
	"path/filepath"

	"k8s.io/utils/cpuset"
)

// CPUs returns the CPUs that a cgroup was given, none where it was given none of its own, and those that
// it has (cpuset.cpus, cpuset.cpus.effective). They differ where its parent lacks some; where the parent
// has none of them it has all of the parent's.
func (f FS) CPUs(cgroup string) (given, effective cpuset.CPUSet, err error) {
	for _, file := range []struct {
		name string
		set  *cpuset.CPUSet
	}{{"cpuset.cpus", &given}, {"cpuset.cpus.effective", &effective}} {
		text, err := f.read(cgroup, file.name)
		if err != nil {
			return given, effective, err
		}
		if *file.set, err = cpuset.Parse(text); err != nil {
			return given, effective, fmt.Errorf("%s: %w", filepath.Join(string(f), cgroup, file.name), err)
		}
	}
	return given, effective, nil
}
