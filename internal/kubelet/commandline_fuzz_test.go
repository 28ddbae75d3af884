package kubelet

import (
	"slices"
	"strings"
	"testing"
)

// FuzzCommandLine: of a flag that is there twice the last counts, whatever is before it.
func FuzzCommandLine(f *testing.F) {
	f.Add("--config=/a\x00--feature-gates\x00A=true,B\x00-v=2\x00--reserved_cpus=0-3")
	f.Add("--config\x00--\x00--system-reserved=cpu=1,memory=\x00--eviction-hard=memory.available<100Mi")
	f.Add("--cgroups-per-qos=x\x00--kube-reserved\x00\x00--max-pods=-1")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		parse(args)
		if slices.Contains(args, "--") {
			return // what follows are no flags
		}
		// The first may be taken for the value of the flag before it.
		got := parse(append(args, "--config=/x", "--config=/y", "--cgroup_driver=/x", "--cgroup_driver=/y"))
		if got.Config != "/y" || got.CgroupDriver != "/y" {
			t.Errorf("config %q, driver %q; want /y", got.Config, got.CgroupDriver)
		}
	})
}
