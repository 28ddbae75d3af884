package lab

import "testing"

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
