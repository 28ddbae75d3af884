package slices

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/kubeletconfig"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/thresholds"
	"node-partition.io/node-partition/pkg/slices/config"
)

// TestDeferrals: a limit waits for evictions only if it is lowered to usage or below it, a pod may
// be evicted, and the limit is not an operator's.
func TestDeferrals(t *testing.T) {
	const mi = 1 << 20
	hard := thresholds.Thresholds{Limit: 200 * mi, Hard: 32 * mi}
	lends := hard
	lends.Burst = 100 * mi
	operator := map[string]string{"/etc/systemd/system.control/kubepods-system.slice.d/50-MemoryMax.conf": "[Slice]\nMemoryMax=8G\n"}
	for name, test := range map[string]struct {
		thresholds thresholds.Thresholds
		max, usage int
		files      map[string]string
		waits      bool
	}{
		"to the usage":             {hard, 400 * mi, 200 * mi, nil, true},
		"above the usage":          {hard, 400 * mi, 200*mi - 1, nil, false},
		"not lowered":              {hard, 200 * mi, 200 * mi, nil, false},
		"the soft threshold alone": {thresholds.Thresholds{Limit: 200 * mi, Soft: mi}, 400 * mi, 300 * mi, nil, true},
		"an operator's limit":      {hard, 400 * mi, 300 * mi, operator, false},
		"lowered with a burst":     {lends, 400 * mi, 300 * mi, nil, true},
		"a burst has room for it":  {lends, 400 * mi, 300*mi - 1, nil, false},
	} {
		root := t.TempDir()
		files := map[string]string{
			partition.System.Cgroup() + "/memory.max":     fmt.Sprintln(test.max),
			partition.System.Cgroup() + "/memory.current": fmt.Sprintln(test.usage),
			partition.System.Cgroup() + "/memory.stat":    "inactive_file 0\nactive_file 0\nslab_reclaimable 0\n",
			monitorCgroup + "/cgroup.events":              "populated 1\n", EvictsFile: "",
		}
		maps.Copy(files, test.files)
		for path, content := range files {
			put(t, filepath.Join(root, path), content)
		}
		found := deferrals(host.Root(root), &config.Config{Kubelet: &kubeletconfig.Merged{}, Partitions: []config.Partition{
			{Name: partition.System, Thresholds: test.thresholds}, {Name: "does-not-run", Thresholds: hard},
		}})
		if d := found[partition.System]; (d != nil) != test.waits || d != nil && d.InForce != 400*mi || found["does-not-run"] != nil {
			t.Errorf("%s: %+v; want it to wait: %t", name, found, test.waits)
		}
	}
}

// TestMonitorEvicts: a limit waits only for a monitor that runs and that evicts. One that runs need
// not be started.
func TestMonitorEvicts(t *testing.T) {
	const events = monitorCgroup + "/cgroup.events"
	for name, test := range map[string]struct {
		files        map[string]string
		evicts, runs bool
	}{
		"runs and evicts":        {map[string]string{events: "populated 1\nfrozen 0\n", EvictsFile: ""}, true, true},
		"runs and only reports":  {map[string]string{events: "populated 1\nfrozen 0\n"}, false, true},
		"has ended":              {map[string]string{events: "populated 0\nfrozen 0\n", EvictsFile: ""}, false, false},
		"has ended, and is gone": {map[string]string{EvictsFile: ""}, false, false},
		"was never there":        {nil, false, false},
		"runs in a slice of an operator": {map[string]string{
			cgroups.Mount + "/kubernetes.slice/partition-monitor.service/cgroup.events": "populated 1\n",
			EvictsFile: "0::/kubernetes.slice/partition-monitor.service\n",
		}, true, true},
		"has ended in a slice of an operator": {map[string]string{
			events: "populated 1\n", cgroups.Mount + "/kubernetes.slice/partition-monitor.service/cgroup.events": "populated 0\n",
			EvictsFile: "0::/kubernetes.slice/partition-monitor.service\n",
		}, false, false},
		"ended in the session of a login": {map[string]string{
			cgroups.Mount + "/user.slice/session-1.scope/cgroup.events": "populated 1\n", EvictsFile: "0::/user.slice/session-1.scope\n",
		}, false, false},
		"a path that leads elsewhere": {map[string]string{
			"/tmp/partition-monitor.service/cgroup.events": "populated 1\n", EvictsFile: "0::/../../../tmp/partition-monitor.service\n",
		}, false, false},
	} {
		root := t.TempDir()
		for path, content := range test.files {
			put(t, filepath.Join(root, path), content)
		}
		if evicts, runs := monitorEvicts(host.Root(root)), monitorRuns(host.Root(root)); evicts != test.evicts || runs != test.runs {
			t.Errorf("%s: evicts %t and runs %t, want %t and %t", name, evicts, runs, test.evicts, test.runs)
		}
	}
}

// TestOperatorSets: systemd's rules for drop-ins decide what an operator has set.
func TestOperatorSets(t *testing.T) {
	const (
		set   = "[Slice]\nMemoryMax=8G\n"
		taken = "[Slice]\nMemoryMax=8G\nMemoryMax=\n"
	)
	for name, test := range map[string]struct {
		files map[string]string // "null" is a link to /dev/null
		want  bool
	}{
		"nothing":                   {nil, false},
		"set-property":              {map[string]string{"/etc/systemd/system.control/kubepods-system.slice.d/50-MemoryMax.conf": set}, true},
		"set-property, this boot":   {map[string]string{"/run/systemd/system.control/kubepods-system.slice.d/50-MemoryMax.conf": set}, true},
		"transient":                 {map[string]string{"/run/systemd/transient/kubepods-system.slice.d/a.conf": set}, true},
		"for a prefix":              {map[string]string{"/etc/systemd/system/kubepods-.slice.d/a.conf": set}, true},
		"for all slices":            {map[string]string{"/run/systemd/system/slice.d/a.conf": set}, true},
		"of a package":              {map[string]string{"/usr/lib/systemd/system/kubepods-system.slice.d/a.conf": set}, true},
		"of a local package":        {map[string]string{"/usr/local/lib/systemd/system/slice.d/a.conf": set}, true},
		"for slices of pods":        {map[string]string{"/etc/systemd/system/kubepods-system-.slice.d/a.conf": set}, false},
		"a unit of one's own":       {map[string]string{"/etc/systemd/system/kubepods-system.slice": set}, true},
		"one that does not set it":  {map[string]string{"/etc/systemd/system/kubepods-system.slice": "[Slice]\n"}, true},
		"one of this boot":          {map[string]string{"/run/systemd/system/kubepods-system.slice": set}, true},
		"a unit of a package":       {map[string]string{"/usr/lib/systemd/system/kubepods-system.slice": set}, false},
		"a unit of a generator":     {map[string]string{"/run/systemd/generator/kubepods-system.slice": set}, false},
		"of a generator":            {map[string]string{"/run/systemd/generator/kubepods-system.slice.d/a.conf": set}, false},
		"not in the section":        {map[string]string{"/etc/systemd/system/slice.d/a.conf": "[Unit]\nMemoryMax=8G\n"}, false},
		"another suffix":            {map[string]string{"/etc/systemd/system/slice.d/a.conf.orig": set}, false},
		"with spaces":               {map[string]string{"/etc/systemd/system/slice.d/a.conf": "[Slice]\nMemoryMax = 8G\n"}, true},
		"another property":          {map[string]string{"/etc/systemd/system/slice.d/a.conf": "[Slice]\nMemoryHigh=8G\n"}, false},
		"of another slice":          {map[string]string{"/run/systemd/system.control/other.slice.d/50-MemoryMax.conf": set}, false},
		"commented out":             {map[string]string{"/etc/systemd/system/slice.d/a.conf": "[Slice]\n#MemoryMax=8G\n"}, false},
		"taken back":                {map[string]string{"/etc/systemd/system/slice.d/a.conf": taken}, false},
		"taken back by a later one": {map[string]string{"/usr/lib/systemd/system/slice.d/a.conf": set, "/etc/systemd/system/slice.d/b.conf": "[Slice]\nMemoryMax=\n"}, false},
		"set after that":            {map[string]string{"/etc/systemd/system/slice.d/a.conf": taken, "/usr/lib/systemd/system/kubepods-system.slice.d/b.conf": set}, true},
		"hidden by an empty one":    {map[string]string{"/usr/lib/systemd/system/kubepods-system.slice.d/a.conf": set, "/etc/systemd/system/kubepods-system.slice.d/a.conf": ""}, false},
		"masked":                    {map[string]string{"/usr/lib/systemd/system/kubepods-system.slice.d/a.conf": set, "/etc/systemd/system/kubepods-system.slice.d/a.conf": "null"}, false},
		"masked for all slices alone": {map[string]string{
			"/usr/lib/systemd/system/kubepods-system.slice.d/a.conf": set, "/etc/systemd/system/slice.d/a.conf": "null",
		}, true},
	} {
		root := t.TempDir()
		for path, content := range test.files {
			if content != "null" {
				put(t, root+path, content)
				continue
			}
			put(t, filepath.Join(root, filepath.Dir(path), "README"), "")
			if err := os.Symlink("/dev/null", root+path); err != nil {
				t.Fatal(err)
			}
		}
		if got := operatorSets(host.Root(root), "kubepods-system.slice", "MemoryMax"); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
