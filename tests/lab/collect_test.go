package lab

import (
	"strings"
	"testing"
)

func TestAddValues(t *testing.T) {
	tree := map[string]Cgroup{}
	for _, p := range []string{"/", "/init.scope", "/kubepods.slice/cri-containerd:a.scope"} {
		tree[p] = Cgroup{Path: p, Values: map[string]string{}}
	}
	addValues(tree, "/sys/fs/cgroup", ""+
		"/sys/fs/cgroup/cpuset.cpus.effective:0-3\n"+
		"/sys/fs/cgroup/init.scope/memory.max:max\n"+
		"/sys/fs/cgroup/init.scope/memory.events:low 0\n"+
		"/sys/fs/cgroup/init.scope/memory.events:high 0 a/b:c\n"+
		"/sys/fs/cgroup/kubepods.slice/cri-containerd:a.scope/memory.max:1\n"+
		"/sys/fs/cgroup/gone.slice/memory.max:1\n")
	for _, tc := range []struct{ path, file, want string }{
		{"/", "cpuset.cpus.effective", "0-3"},
		{"/init.scope", "memory.max", "max"},
		{"/init.scope", "memory.events", "low 0\nhigh 0 a/b:c"},
		{"/kubepods.slice/cri-containerd:a.scope", "memory.max", "1"},
	} {
		if got := tree[tc.path].Values[tc.file]; got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.path, tc.file, got, tc.want)
		}
	}
	if len(tree) != 3 {
		t.Errorf("%d folders", len(tree))
	}
}

func TestGuestPanic(t *testing.T) {
	if err := guestPanic([]byte("[ 1.0] Linux version 6.12\r\n[ 2.0] systemd[1]: Oops, a unit\r\n")); err != nil {
		t.Errorf("without a panic: %v", err)
	}
	err := guestPanic([]byte("[ 1.0] Linux version 6.12\r\n[ 2.0] Oops: int3: 0000 [#1]\r\n[ 2.0] RIP: 0010:somewhere\r\n" +
		strings.Repeat("[ 2.1]  ? frame\r\n", 30) + "[ 2.2] Kernel panic - not syncing: Fatal exception\r\n"))
	if err == nil || !strings.Contains(err.Error(), "int3: 0000 [#1]\n[ 2.0] RIP") || strings.Contains(err.Error(), "Linux version") {
		t.Errorf("with a panic: %v", err)
	}
}
