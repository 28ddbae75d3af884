package check

import "testing"

func TestRecursive(t *testing.T) {
	t.Parallel()
	const tmpfs = "tmpfs /run tmpfs rw,nosuid 0 0\n"
	for mounts, want := range map[string]bool{
		tmpfs + "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0\n": true,
		tmpfs + "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0\n":                      false,
		tmpfs + "cgroup2 /sys/fs/cgroup cgroup2\n":                                                                     true,
		tmpfs: true,
	} {
		if got := recursive(mounts); got != want {
			t.Errorf("%q: %t, want %t", mounts, got, want)
		}
	}
}
