package lab

import (
	"slices"
	"testing"
)

func TestSettled(t *testing.T) {
	clean := Look{
		Cgroups: map[string][]string{
			"/kubepods.slice/kubepods-burstable.slice": {"cpu.weight=79 "}, "/kubepods-system.slice": {"cpu.weight=79 "},
		},
		Files: map[string][]string{
			"/run/systemd/transient/kubepods-burstable.slice.d/50-CPUWeight.conf": {"-rw-r--r-- 141"},
			"/run/systemd/transient/kubepods-burstable.slice.d/50-MemoryMax.conf": {"-rw-r--r-- 140"},
		},
	}
	now := Look{
		Cgroups: map[string][]string{
			"/kubepods.slice/kubepods-burstable.slice": {"cpu.weight=109 "}, "/kubepods-system.slice": {"cpu.weight=109 "},
		},
		Files: map[string][]string{
			"/run/systemd/transient/kubepods-burstable.slice.d/50-CPUWeight.conf": {"-rw-r--r-- 142"},
		},
	}
	want := []string{
		`cgroup /kubepods-system.slice: ["cpu.weight=109 "], was ["cpu.weight=79 "]`,
		`file /run/systemd/transient/kubepods-burstable.slice.d/50-MemoryMax.conf is missing`,
	}
	if got := now.settled().Differences(clean.settled()); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if len(clean.Files) != 2 || len(clean.Cgroups) != 2 {
		t.Errorf("settled changes the look itself: %v", clean)
	}
}
