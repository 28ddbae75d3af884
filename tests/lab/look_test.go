package lab

import (
	"slices"
	"testing"
)

func TestLookDifferences(t *testing.T) {
	earlier := Look{
		Units:   map[string][]string{"a.service": {"loaded active running"}, "gone.service": {"loaded active running"}},
		Cgroups: map[string][]string{"/kubepods.slice": {"memory.max=1 "}, "/x/cri-containerd-ID.scope": {"", ""}},
		Files:   map[string][]string{"/etc/a": {"-rw-r--r-- 3"}},
	}
	now := Look{
		Units:   map[string][]string{"a.service": {"loaded failed failed"}},
		Cgroups: map[string][]string{"/kubepods.slice": {"memory.max=2 "}, "/x/cri-containerd-ID.scope": {""}},
		Files:   map[string][]string{"/etc/a": {"-rw-r--r-- 3"}, "/etc/new": {"-rw-r--r-- 0"}},
	}
	want := []string{
		`cgroup /kubepods.slice: ["memory.max=2 "], was ["memory.max=1 "]`,
		`cgroup /x/cri-containerd-ID.scope: [""], was ["" ""]`,
		`file /etc/new was not there before`,
		`unit a.service: ["loaded failed failed"], was ["loaded active running"]`,
		`unit gone.service is missing`,
	}
	if got := now.Differences(earlier); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if got := earlier.Differences(earlier); len(got) != 0 {
		t.Errorf("a look differs from itself: %q", got)
	}
}

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

func TestWithoutIDs(t *testing.T) {
	for name, want := range map[string]string{
		"cri-containerd-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.scope": "cri-containerd-ID.scope",
		"kubepods-burstable-pod0b4b4d8e_1c2d_4e5f_8a9b_0c1d2e3f4a5b.slice":                      "kubepods-burstable-podUID.slice",
		"session-3.scope":       "session-N.scope",
		"kubepods-system.slice": "kubepods-system.slice",
	} {
		if got := withoutIDs(name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
}
