package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/partition"
)

const (
	system     = "kubepods.slice/kubepods-system.slice/"
	burstable  = system + "kubepods-system-burstable.slice/"
	guaranteed = system + "kubepods-system-pod1.slice"
	leaker     = burstable + "kubepods-system-burstable-pod2.slice"
	neighbour  = burstable + "kubepods-system-burstable-pod3.slice"
)

// TestKills: a kill is attributed to the pod of the process, if that pod's own limits were kept.
func TestKills(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(cgroup string, oom, killed int) {
		t.Helper()
		dir := filepath.Join(root, cgroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("low 0\nhigh 0\nmax 0\noom %d\noom_kill %d\n", oom, killed)
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := Kills{Cgroups: cgroups.FS(root), Partition: partition.System}
	want := func(what string, expected map[string]uint64, unknown uint64) {
		t.Helper()
		if got, others := k.Since(); !maps.Equal(got, expected) || others != unknown {
			t.Errorf("%s: %v, and %d in others; want %v, and %d", what, got, others, expected, unknown)
		}
	}
	write(system, 9, 14)
	write(guaranteed, 0, 0)
	write(leaker, 2, 7)
	write(system+"another.slice", 0, 5)
	want("before the first", nil, 0)
	want("none", nil, 0)
	write(system, 10, 20)
	write(leaker, 2, 9)
	write(guaranteed, 3, 4)
	want("at the partition's limit, and at a pod's own", map[string]uint64{leaker: 2}, 0)
	want("once", nil, 0)
	write(system, 11, 21)
	write(neighbour, 0, 1)
	want("a new pod", map[string]uint64{neighbour: 1}, 0)
	write(neighbour, 0, 2)
	want("a kill between the two readings", map[string]uint64{neighbour: 1}, 0)
	write(system, 12, 22)
	want("the same kill in the partition", nil, 0)
	write(system, 13, 24)
	want("pods that have ended", nil, 2)
	write(system, 14, 27)
	write(leaker, 0, 3)
	want("a slice that was created again", map[string]uint64{leaker: 3}, 0)
	write(system, 15, 33)
	write(guaranteed, 0, 6)
	want("a slice that was created again, with more kills", map[string]uint64{guaranteed: 6}, 0)
	if err := os.RemoveAll(filepath.Join(root, system)); err != nil {
		t.Fatal(err)
	}
	want("no partition", nil, 0)
	write(system, 1, 1)
	want("a partition that was made again", nil, 1)
}

// TestKillsPartitions: a kill in one partition is not attributed to another, nor to one whose name
// begins with the same letters.
func TestKillsPartitions(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(cgroup string, oom, killed int) {
		t.Helper()
		dir := filepath.Join(root, cgroup)
		text := fmt.Sprintf("oom %d\noom_kill %d\n", oom, killed)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "memory.events"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	partitions := []partition.Name{partition.System, "telemetry", "telemetry-edge"}
	kills, pods := map[partition.Name]*Kills{}, map[partition.Name]string{}
	for _, p := range partitions {
		kills[p] = &Kills{Cgroups: cgroups.FS(root), Partition: p}
		pods[p] = partition.CgroupPath(partition.PodSlice(p, partition.Burstable, "1"))
		write(partition.CgroupPath(p.Slice()), 0, 0)
		write(pods[p], 0, 0)
		kills[p].Since()
	}
	for n, in := range partitions {
		write(partition.CgroupPath(in.Slice()), 1, 1+n)
		write(pods[in], 0, 1+n)
		for _, p := range partitions {
			var want map[string]uint64
			if p == in {
				want = map[string]uint64{pods[p]: uint64(1 + n)}
			}
			if got, unknown := kills[p].Since(); !maps.Equal(got, want) || unknown != 0 {
				t.Errorf("after a kill in %s, %s has %v, and %d in others; want %v", in, p, got, unknown, want)
			}
		}
	}
}
